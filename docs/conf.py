"""Sphinx configuration. ``make docs`` builds the site and treats warnings as errors."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # the tutorials call cgmcr2
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import generate  # noqa: E402

import cgmcr2  # noqa: E402

project = "cgmcr2"
author = "The cgmcr2 developers"
release = version = cgmcr2.__version__

extensions = [
    "mathml",
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build", "jupyter_execute", "**/generated", "**/.ipynb_checkpoints"]
templates_path = ["_templates"]

# Markdown
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 3
myst_links_external_new_tab = True

# Tutorials are notebooks; a failing cell fails the build. Their outputs are cached until the package changes.
nb_execution_mode = "cache"
nb_execution_cache_path = str(DOCS / "_build" / ".jupyter_cache")
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True

# API reference: docstrings are in numpydoc or Google style, which napoleon reads both
autosummary_generate = True
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "none"
autoclass_content = "class"
napoleon_use_rtype = False
napoleon_use_param = False
napoleon_custom_sections = [("Attributes", "params_style")]  # one list, as for parameters
add_module_names = False
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = f"cgmcr2 {cgmcr2.__version__}"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_show_sourcelink = False
html_math_renderer = "mathml"
html_sidebars = {"architecture/index": []}  # no pages below it
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "footer_start": ["copyright"],
    "footer_end": [],
}
copyright = "The cgmcr2 developers, MIT licence"


def drop_stale_outputs() -> None:
    """Delete cached outputs of the tutorials that are older than the package."""
    cache = Path(nb_execution_cache_path)
    changed = max(file.stat().st_mtime for file in Path(cgmcr2.__file__).parent.rglob("*.py"))
    if cache.exists() and cache.stat().st_mtime < changed:
        shutil.rmtree(cache)


def skip_member(app: Sphinx, what: str, name: str, member: object, skip: bool, options: object) -> bool | None:
    """Leave out the fields of named tuples and scikit-learn's metadata routing."""
    return type(member).__name__ == "_tuplegetter" or re.fullmatch("set_.*_request", name) is not None or None


def setup(app: Sphinx) -> None:
    """Generate the reference pages and diagrams before the sources are read."""
    drop_stale_outputs()
    app.connect("builder-inited", lambda _: generate.write_all(DOCS))
    app.connect("autodoc-skip-member", skip_member)

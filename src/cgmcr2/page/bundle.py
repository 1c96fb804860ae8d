"""Join ES modules to one classic script, because browsers refuse to import modules from ``file://``."""

from __future__ import annotations

import re
from pathlib import Path

ASSETS = Path(__file__).parent / "assets"  # modules, style sheet and template of the page

IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w.-]+)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class)\*? ([\w$]+))", re.MULTILINE)


def bundle(entry: str, folder: Path = ASSETS) -> str:
    """``entry`` and the modules that it imports, as one script.

    Each module becomes a function that returns its exports. Supported are ``import { a, b as c } from "./x.js";`` and
    ``export`` in front of ``function``, ``const`` and ``class``.
    """
    modules: dict[str, str | None] = {}  # in the order of evaluation; None while the imports are being added

    def add(name: str) -> None:
        if name in modules:
            if modules[name] is None:
                raise ValueError(f"{name} imports itself through another module; remove the circular import.")
            return
        modules[name] = None
        source = (folder / name).read_text(encoding="utf-8")
        for _, imported in IMPORT.findall(source):
            add(imported)
        exports = ", ".join(EXPORT.findall(source))
        body = EXPORT.sub("", IMPORT.sub(_lookup, source))
        if unsupported := re.search(r"^(import|export)\b.*", body, re.MULTILINE):
            raise ValueError(f"{name} has a statement that cannot be bundled: {unsupported[0]}")
        del modules[name]  # after its imports
        modules[name] = f'modules["{name}"] = (() => {{\n{body}\nreturn {{ {exports} }};\n}})();\n'

    add(entry)
    return '"use strict";\nconst modules = {};\n' + "".join(filter(None, modules.values()))


def _lookup(match: re.Match[str]) -> str:
    """The assignment that replaces an import."""
    return f'const {{{match[1].replace(" as ", ": ")}}} = modules["{match[2]}"];\n'

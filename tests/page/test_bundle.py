"""Modules joined to one script."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from cgmcr2.page import ASSETS, bundle


def write(folder: Path, **modules: str) -> Path:
    for name, text in modules.items():
        (folder / f"{name}.js").write_text(text, encoding="utf-8")
    return folder


def test_each_module_is_evaluated_once_after_its_imports(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        app='import { two as b } from "./b.js";\nimport { one } from "./a.js";\nprint(one + b);\n',
        b='import { one } from "./a.js";\nexport const two = one + 1;\n',
        a="export function one_() {}\nexport const one = 1;\nconst two = 0;\n",
    )
    script = bundle("app.js", folder)
    assert script.index('modules["a.js"] =') < script.index('modules["b.js"] =') < script.index('modules["app.js"] =')
    assert script.count("const one = 1;") == 1
    assert 'const { two: b } = modules["b.js"];' in script
    assert "return { one_, one };" in script


def test_circular_imports_are_refused(tmp_path: Path) -> None:
    folder = write(tmp_path, a='import { b } from "./b.js";\n', b='import { a } from "./a.js";\n')
    with pytest.raises(ValueError, match="circular"):
        bundle("a.js", folder)


@pytest.mark.parametrize("statement", ["export let x = 1;", 'import x from "./a.js";', 'export * from "./a.js";'])
def test_unsupported_statements_are_refused(tmp_path: Path, statement: str) -> None:
    with pytest.raises(ValueError, match="cannot be bundled"):
        bundle("a.js", write(tmp_path, a=statement + "\n"))


def test_bundle_of_the_page_is_valid(tmp_path: Path) -> None:
    script = bundle("app.js")
    assert all(f'modules["{path.name}"]' in script for path in ASSETS.glob("*.js"))
    assert "</script" not in script  # it is embedded in the page
    if (node := shutil.which("node")) is not None:
        (tmp_path / "bundle.js").write_text(script, encoding="utf-8")
        subprocess.run([node, "--check", str(tmp_path / "bundle.js")], check=True)

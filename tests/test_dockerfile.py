"""The Dockerfile copies files that exist and installs extras that exist; building it needs a registry."""

from __future__ import annotations

import re
from pathlib import Path

from cgmcr2 import _toml

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "Dockerfile").read_text()


def test_copied_files_exist_and_are_not_ignored() -> None:
    included = re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    copied = [name for line in re.findall(r"^COPY (.+) \S+$", TEXT, re.MULTILINE) for name in line.split()]
    assert sorted(copied) == sorted(included)
    assert all((ROOT / name).exists() for name in copied)


def test_project_file_needs_no_other_files() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    named = re.findall(r'^readme = "(.+)"$|^license-files = \["(.+)"\]$', project, re.MULTILINE)
    assert [file for pair in named for file in pair if file and f" {file} " not in TEXT] == []


def test_extras_exist() -> None:
    (extras,) = re.findall(r"^ARG EXTRAS=(.+)$", TEXT, re.MULTILINE)
    assert set(extras.split(",")) <= set(
        _toml.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    )

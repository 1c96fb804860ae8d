"""The commands, snippets and names in the README and the documentation are correct."""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer
from PIL import Image
from sklearn.datasets import load_digits

from cgmcr2.cli import app, run
from cgmcr2.training.settings import setting_names

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted(DOCS.rglob("*.md")) if not {"_build", "generated"} & set(page.relative_to(DOCS).parts)),
]
INPUTS = ("photos", "new_photos", "features.npz", "sets")
PARSED_ONLY = ("compare", "explore", "reproduce", "tune")  # slow or endless, and tested elsewhere
COMMANDS: Any = typer.main.get_command(app)


def page_name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def code_blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def command_lines(block: str) -> list[list[str]]:
    """The words of each ``cgmcr2`` command in a block."""
    lines = [shlex.split(line, comments=True) for line in block.splitlines() if line.startswith("cgmcr2 ")]
    return [words[1:] for words in lines]


def with_blocks(*languages: str) -> list[Path]:
    return [page for page in PAGES if any(code_blocks(page, language) for language in languages)]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the inputs that the documentation names: photos, new photos, features, and those of a data set."""
    folder = tmp_path_factory.mktemp("docs")
    X, y = load_digits(return_X_y=True)
    for name, rows in (("photos", range(40)), ("new_photos", range(40, 45))):
        (folder / name).mkdir()
        for row in rows:
            image = Image.fromarray(np.uint8(X[row].reshape(8, 8) * 15)).resize((32, 32))
            image.save(folder / name / f"{row}.png")
    (folder / "sets").mkdir()
    for path in ("features.npz", "sets/cifar10.npz"):
        np.savez(folder / path, features=X[:120].astype(np.float32), labels=y[:120])
    return folder


@pytest.fixture
def workspace(inputs: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the inputs as the working directory; what a page writes is removed before the next one."""
    monkeypatch.chdir(inputs)
    monkeypatch.setenv("XDG_CACHE_HOME", str(inputs / "cache"))
    yield inputs
    for path in inputs.iterdir():
        if path.name not in (*INPUTS, "cache"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Outputs of the commands that several blocks repeat."""
    return tmp_path_factory.mktemp("finished")


def execute(words: list[str], finished: Path) -> None:
    """Run a command, or copy the output that the same command wrote before."""
    output = Path(words[words.index("-o") + 1]) if "-o" in words else None
    copy = finished / hashlib.sha256(shlex.join(word for word in words if word != "-q").encode()).hexdigest()[:16]
    repeatable = output is not None and words[0] in ("cluster", "embed", "fit") and not output.exists()
    if repeatable and copy.exists():
        shutil.copytree(copy, output)
        return
    assert run(*words) == 0, shlex.join(words)
    if repeatable:
        shutil.copytree(output, copy)


@pytest.mark.parametrize("page", with_blocks("sh"), ids=page_name)
def test_commands_run(page: Path, workspace: Path, finished: Path) -> None:
    for block in code_blocks(page, "sh"):
        for path in workspace.iterdir():
            if path.name not in INPUTS:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        for words in command_lines(block):
            if words[0] not in PARSED_ONLY:
                execute(words, finished)


@pytest.mark.parametrize("page", with_blocks("sh", "text"), ids=page_name)
def test_commands_have_valid_options(page: Path, workspace: Path) -> None:
    for block in code_blocks(page, "sh") + code_blocks(page, "text"):
        for command, *arguments in command_lines(block):
            COMMANDS.commands[command].make_context(command, arguments)


@pytest.mark.parametrize("page", with_blocks("sh"), ids=page_name)
def test_other_programs_are_known(page: Path) -> None:
    programs = {line.split()[0] for block in code_blocks(page, "sh") for line in block.splitlines() if line.strip()}
    assert programs <= {"cgmcr2", "make", "pip"}


@pytest.mark.parametrize("page", with_blocks("python"), ids=page_name)
def test_snippets_run(page: Path, workspace: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 8)).astype(np.float32)
    Z = torch.nn.functional.normalize(torch.from_numpy(X), dim=1)
    names = {"X": X, "X_new": X[:5], "Z": Z, "Pi": torch.full((60, 3), 1 / 3), "A": (Z @ Z.T).clamp_min(0)}
    for block in code_blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_commands_in_the_text_exist(page: Path) -> None:
    commands = re.findall(r"`cgmcr2 ([a-z][a-z-]*)[ `]", page.read_text(encoding="utf-8"))
    assert set(commands) <= set(COMMANDS.commands)


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_links_of_pages_outside_the_site(name: str) -> None:
    links = re.findall(r"\]\(([^)#]+)", (ROOT / name).read_text(encoding="utf-8"))
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    used = {target for page in PAGES for target in re.findall(r"\bmake ([a-z]+)\b", _code(page))}
    assert used <= targets


def _code(page: Path) -> str:
    text = page.read_text(encoding="utf-8")
    return "\n".join(code_blocks(page, "sh") + re.findall(r"`(make [a-z]+)`", text))


def test_every_setting_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    import generate

    tables = generate.settings_tables()
    assert [name for name in setting_names() if f"| `{name}` |" not in tables] == []


def test_every_command_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    import generate

    page = generate.command_line()
    assert [name for name in COMMANDS.commands if f"## {name}\n" not in page] == []


def test_diagrams_name_existing_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    import diagrams

    assert [name for name in diagrams.named_files() if not (ROOT / "src" / "cgmcr2" / name).exists()] == []

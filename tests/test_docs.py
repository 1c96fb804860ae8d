"""Every command and every example in the documentation runs as it stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from cgmcr2.cli import run

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the documentation speaks of: photos, new photos, features, and those of a data set."""
    X, y = load_digits(return_X_y=True)
    for folder, first in (("photos", 0), ("new_photos", 40)):
        (tmp_path / folder).mkdir()
        for i in range(first, first + (40 if first == 0 else 5)):
            Image.fromarray(np.uint8(X[i].reshape(8, 8) * 15)).resize((32, 32)).save(tmp_path / folder / f"{i}.png")
    np.savez(tmp_path / "features.npz", features=X[:200].astype(np.float32), labels=y[:200])
    (tmp_path / "sets").mkdir()
    np.savez(tmp_path / "sets" / "cifar10.npz", features=X[:200].astype(np.float32), labels=y[:200])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands(page: Path, workplace: Path) -> None:
    for block in blocks(page, "sh"):
        (workplace / "run").exists() and (workplace / "run").rename(workplace / f"run-{len(list(workplace.iterdir()))}")
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] != ["cgmcr2"]:
                assert not words or words[0] in ("make", "pip", "python"), f"{page.name}: {line} is not checked"
                continue
            assert run(*words[1:]) == 0, f"{page.name}: {line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python(page: Path, workplace: Path) -> None:
    random = np.random.default_rng(0)
    X = random.standard_normal((60, 8)).astype(np.float32)
    Z = torch.nn.functional.normalize(torch.from_numpy(X), dim=1)
    names = {"X": X, "X_new": X[:5], "Z": Z, "Pi": torch.full((60, 3), 1 / 3), "A": (Z @ Z.T).clamp_min(0)}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), dict(names))

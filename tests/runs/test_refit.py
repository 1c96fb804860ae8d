"""A refit that is killed leaves the earlier or the new results, and is completed when it is repeated."""

from __future__ import annotations

import functools
import shutil
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from cgmcr2 import CgMCR2
from cgmcr2.runs import Edits, RunFolder, RunResult, check_run, fit_images

from ..colours import write_photos
from ..fault_injection import killed_at

QUICK: dict[str, Any] = {"hidden_dim": 8, "warmup_epochs": 20, "finetune_epochs": 10, "n_heads": 1, "lr": 0.01}

pytestmark = pytest.mark.filterwarnings("ignore:The edits in .* have no effect")


def fit(photos: Path, run: Path, *, refit: bool = False) -> RunResult:
    return fit_images(CgMCR2(3, settings=QUICK), photos, run, encoder="colours", refit=refit)


def content(run: Path) -> dict[str, bytes]:
    files = ((str(path.relative_to(run)), path) for path in run.rglob("*") if path.is_file())
    return {name: path.read_bytes() for name, path in files if not name.startswith(".") and "features" not in name}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return write_photos(tmp_path / "photos", 12)


@pytest.fixture
def run(photos: Path, tmp_path: Path) -> Path:
    """A finished run with a named cluster, and a new photo."""
    fit(photos, tmp_path / "run")
    with Edits(tmp_path / "run") as edits:
        edits.rename(0, "first")
    Image.new("RGB", (16, 16), (230, 20, 30)).save(photos / "new.png")
    (photos / "broken.png").write_text("not an image")
    return tmp_path / "run"


def test_results_killed_at_any_moment_are_old_or_new(
    photos: Path, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = content(run)
    undisturbed = tmp_path / "undisturbed"
    shutil.copytree(run, undisturbed)
    result = fit(photos, undisturbed, refit=True)
    new = content(undisturbed)
    assert result.model is not None
    states = []
    killed = True
    while killed:
        trial = RunFolder(tmp_path / f"trial-{len(states)}")
        shutil.copytree(run, trial.path)
        shutil.copy(undisturbed / "errors.csv", trial.path)  # as embedding the images does
        write = functools.partial(trial.write_results, result.model, result.clustering, result.folder.info, undisturbed)
        killed = killed_at(len(states), monkeypatch, write)
        RunFolder(trial.path).clustering  # noqa: B018 - as any command, it finishes the replacement
        state = content(trial.path)
        states.append(state == new)
        assert state == (new if states[-1] else {**old, "errors.csv": new["errors.csv"]})
    assert states == sorted(states)
    assert 10 < sum(states) < len(states) - 10


@pytest.mark.parametrize("operation", [40, 70])
def test_a_killed_refit_is_completed_when_repeated(
    photos: Path, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: int
) -> None:
    shutil.copytree(run, tmp_path / "undisturbed")
    fit(photos, tmp_path / "undisturbed", refit=True)
    assert killed_at(operation, monkeypatch, lambda: fit(photos, run, refit=True))
    assert check_run(run) == []
    fit(photos, run, refit=True)
    assert content(run) == content(tmp_path / "undisturbed")
    assert not (run / ".refit").exists()


def test_an_interrupted_refit_of_other_images_is_started_again(
    photos: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert killed_at(25, monkeypatch, lambda: fit(photos, run, refit=True))
    assert (run / ".refit" / "precomputed.safetensors").exists()
    Image.new("RGB", (16, 16), (20, 30, 230)).save(photos / "another.png")
    assert len(fit(photos, run, refit=True).clustering) == 14


def test_an_unfinished_run_can_be_refitted(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run"
    assert killed_at(25, monkeypatch, lambda: fit(photos, folder))
    assert not RunFolder(folder).info.finished
    Image.new("RGB", (16, 16), (20, 30, 230)).save(photos / "another.png")
    assert len(fit(photos, folder, refit=True).clustering) == 13


def test_a_refused_command_leaves_an_intact_run(photos: Path, run: Path) -> None:
    with pytest.raises(ValueError, match="with --refit"):
        fit(photos, run)
    assert check_run(run) == []

"""The command line in several processes."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from cgmcr2.cli import run as run_command
from cgmcr2.distributed import ProcessError, process_group
from cgmcr2.runs import RunFolder

from .conftest import Run

OPTIONS = ["-k", "10", "--preset", "paper", "--set", "hidden_dim=32", "--set", "finetune_epochs=1"]


@pytest.fixture
def features(tmp_path: Path) -> Path:
    path = tmp_path / "digits.npz"
    np.savez(path, features=load_digits().data[:300].astype(np.float32))
    return path


def command(*arguments: object) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = run_command(*arguments)
    return code, out.getvalue(), err.getvalue()


def labels(folder: Path) -> np.ndarray[Any, Any]:
    return RunFolder(folder).clustering.labels


def test_torchrun(features: Path, tmp_path: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    fit = ["-m", "cgmcr2", "fit", str(features), *OPTIONS, "-o", str(tmp_path / "run")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    result = subprocess.run([*torchrun, *fit], env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert re.fullmatch(r"300 rows \(all rows\) in \d+ clusters: .*labels.csv\n", result.stdout)
    assert command("fit", features, *OPTIONS, "-o", tmp_path / "single")[0] == 0
    assert np.mean(labels(tmp_path / "run") == labels(tmp_path / "single")) >= 0.999
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        path.name for path in (tmp_path / "single").iterdir()
    }


def test_only_the_first_process_prints_and_a_finished_run_is_kept(run: Run, features: Path, tmp_path: Path) -> None:
    arguments = ("fit", features, *OPTIONS, "-o", tmp_path / "run")
    (code, out, _), other = run(2, command, *arguments)
    assert code == 0
    assert out.startswith("300 rows (all rows) in ")
    assert other == (0, "", "")
    before = (tmp_path / "run" / "labels.csv").stat().st_mtime_ns
    assert run(2, command, *arguments) == [(0, out, ""), (0, "", "")]
    assert (tmp_path / "run" / "labels.csv").stat().st_mtime_ns == before


def test_an_error_is_one_sentence_in_each_process(run: Run, features: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").touch()
    first, second = run(2, command, "fit", features, *OPTIONS, "-o", tmp_path / "run")
    assert first == (2, "", f"cgmcr2: {tmp_path / 'run'} is not empty and is not a run folder; choose a new folder.\n")
    assert second == (2, "", "cgmcr2: The first process has failed; see its message.\n")


def cluster(photos: Path, folder: Path) -> tuple[int, str, str]:
    return command("cluster", photos, "-k", "3", "-q", "-o", folder)


def test_images(run: Run, tmp_path: Path) -> None:
    from PIL import Image

    (tmp_path / "photos").mkdir()
    for row, image in enumerate(load_digits().images[:12]):
        Image.fromarray(np.uint8(image * 15)).resize((32, 32)).save(tmp_path / "photos" / f"{row}.png")
    first, second = run(2, cluster, tmp_path / "photos", tmp_path / "run")
    assert first[0] == second[0] == 0
    assert "12 images in" in first[1]
    assert second == (0, "", "")
    assert (tmp_path / "run" / "report.html").is_file()


def terminated() -> None:
    with process_group():
        os.kill(os.getpid(), signal.SIGTERM)


def test_sigterm_ends_with_a_sentence(run: Run) -> None:
    for error in run(2, terminated):
        assert isinstance(error, ProcessError)
        assert "repeat the command to resume" in str(error)

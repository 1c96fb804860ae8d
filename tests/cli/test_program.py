"""Exit codes and error messages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cgmcr2 import runs
from cgmcr2.cli import run


def test_verbose_shows_the_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("evaluate", tmp_path, tmp_path, "-v") == 2
    error = capsys.readouterr().err
    assert "Traceback (most recent call last)" in error
    assert error.splitlines()[-1].startswith("cgmcr2: ")


def test_ctrl_c_is_exit_code_130(
    features: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "choose_clusters", interrupt)
    assert run("choose-k", features) == 130
    assert capsys.readouterr().err == "cgmcr2: Interrupted; repeat the command to resume.\n"


def test_errors_of_the_file_system_name_the_file(
    fitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert run("export", fitted, "--to", "csv", "-o", tmp_path / "file" / "labels.csv") == 2
    error = capsys.readouterr().err
    assert str(tmp_path / "file") in error
    assert error.count("\n") == 1


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch, features: Path) -> None:
    monkeypatch.setattr(runs, "choose_clusters", None)
    with pytest.raises(TypeError):
        run("choose-k", features)


def test_python_dash_m_and_a_closed_pipe() -> None:
    command = f"{sys.executable} -m cgmcr2 datasets | head -n 1"
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert ended.stdout.startswith("mnist: MNIST")
    assert ended.stderr == ""

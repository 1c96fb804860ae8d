from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from cgmcr2.cli import run


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    X, y = load_digits(return_X_y=True)
    path = tmp_path_factory.mktemp("features") / "digits.npz"
    np.savez(path, features=X[:200].astype(np.float32), labels=y[:200])
    return path


def test_a_table_is_printed_and_saved(features: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", features, "-k", 10, "--methods", "k-means, spectral", "--seeds", 1, "-o", tmp_path / "out"]
    assert run(*words, "--set", "spectral.s=5", "--in-process") == 0
    shown = capsys.readouterr()
    assert "| spectral | 1 |" in " ".join(shown.out.split())
    assert "fitted and labelled all rows (200 rows)" in shown.out
    assert "k-means, seed 0: ACC" in shown.err
    assert (tmp_path / "out" / "table.csv").exists()
    assert '"s": 5,' in (tmp_path / "out" / "runs.jsonl").read_text()
    assert run(*words, "--set", "spectral.s=5", "--json") == 0  # no run is repeated
    shown = capsys.readouterr()
    rows = json.loads(shown.out)["methods"]
    assert [row["method"] for row in rows] == ["k-means", "spectral"]
    assert 0 < rows[0]["measures"]["acc"][0] < 1
    assert shown.err == ""


def test_the_protocol_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X, y = load_digits(return_X_y=True)
    np.savez(tmp_path / "x.npz", features=X[:200].astype(np.float32), labels=y[:200], split=np.arange(200) % 4 == 0)
    words = ["compare", tmp_path / "x.npz", "-k", 10, "--methods", "k-means", "--seeds", 1, "--in-process", "-q"]
    assert run(*words, "-o", tmp_path / "all", "--protocol", "all") == 0
    assert "fitted on all rows (200 rows), scored on split 1 (50 rows)" in capsys.readouterr().out
    assert run(*words, "-o", tmp_path / "unseen") == 0
    assert "fitted on split 0 (150 rows), predicted split 1 (50 rows)" in capsys.readouterr().out


def test_exit_code_1_if_no_run_finishes(features: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    words = ["compare", features, "-k", 10, "--seeds", 1, "--in-process", "-q", "-o", out, "--set", "spectral.s=0"]
    assert run(*words, "--methods", "spectral") == 1
    shown = capsys.readouterr()
    assert "seed 0 failed" in shown.out
    assert f"No run has finished; the reasons are in {out / 'table.md'}." in shown.err
    assert run(*words, "--methods", "spectral", "--json") == 1
    assert run(*words, "--methods", "spectral,k-means") == 0  # one finished run is enough


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--methods", "kmeans"], "There is no method named 'kmeans'; did you mean 'k-means'?"),
        (["--methods", "spectral", "--set", "spectral.typo=1"], "spectral: spectral has no parameter named 'typo'"),
        (["--set", "s=5"], "--set s=5 is not a setting; write --set METHOD.NAME=VALUE."),
        (["--seeds", "0"], "The number of seeds is 0; give at least 1."),
        (["--limit", "5", "--in-process"], "A time limit needs one process per run"),
    ],
)
def test_user_errors_are_one_sentence(
    words: list[str], sentence: str, features: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("compare", features, "-k", 10, "-o", tmp_path / "out", "-q", *words) == 2
    assert sentence in capsys.readouterr().err

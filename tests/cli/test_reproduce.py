"""reproduce as a user types it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cgmcr2.cli import run
from cgmcr2.experiments import runner
from cgmcr2.experiments.job import attempt


@pytest.fixture
def store(tmp_path: Path) -> Path:
    y = np.arange(60) % 3
    X = (np.eye(6)[y] + 0.1 * np.random.default_rng(0).standard_normal((60, 6))).astype(np.float32)
    (tmp_path / "store").mkdir()
    np.savez(tmp_path / "store" / "cifar10.npz", features=X, labels=y)
    return tmp_path / "store"


def test_the_tables_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("reproduce", "--list") == 0
    shown = capsys.readouterr().out
    assert "table-6   strategies" in shown
    assert "figure-5" in shown


def test_a_table_by_its_topic(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_run", lambda job, limit: attempt(job))  # a process for each takes seconds to start
    words = ["reproduce", "activation", "--features", store, "-o", tmp_path / "out", "--seeds", 1, "--quick"]
    small = ["--set", "hidden_dim=8", "--set", "batch_size=32", "--set", "embedding_dim=x0.03125"]
    assert run(*words, *small) == 0
    shown = capsys.readouterr()
    assert "Table B.6: Output activation" in shown.out
    assert "CIFAR-10, Softmax, seed 0: ACC" in shown.err
    assert "CIFAR-100 is left out" in shown.out
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "labels",
        "runs.jsonl",
        *(f"table-b6.{suffix}" for suffix in ("txt", "md", "tex", "csv")),
    }
    assert '"embedding_dim": 4' in (tmp_path / "out" / "runs.jsonl").read_text()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["table-99"], "There is no experiment 'table-99'"),
        ([], "Say which table, where its features are"),
        (["table-6", "--set", "gamma"], "--set gamma has no value"),
        (["table-6", "--seeds", "0"], "The number of seeds is 0"),
        (["table-6", "--only", "cifar"], "There is no data set 'cifar'"),
    ],
)
def test_mistakes_are_one_sentence(
    words: list[str], sentence: str, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("reproduce", *words, "--features", store, "-o", tmp_path / "out", "-q") == 2
    assert sentence in capsys.readouterr().err


def test_what_needs_no_features_asks_for_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("reproduce", "table-a3", "-o", tmp_path / "out") == 0
    assert (tmp_path / "out" / "table-a3.tex").exists()
    assert run("reproduce", "table-a3", "table-6", "-o", tmp_path / "out") == 2
    assert "where its features are" in capsys.readouterr().err

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from cgmcr2.cli import run as program
from cgmcr2.runs import Edits


@pytest.fixture
def run(tmp_path: Path) -> str:
    X, y = make_blobs(60, n_features=8, centers=3, random_state=0)
    np.savez(tmp_path / "x.npz", features=X.astype(np.float32), labels=y)
    settings = [word for name in ("hidden_dim=16", "warmup_epochs=10", "lr=0.01") for word in ("--set", name)]
    assert program("fit", str(tmp_path / "x.npz"), "-k", "3", "-o", str(tmp_path / "run"), "-q", *settings) == 0
    return str(tmp_path / "run")


def test_preview_accept_and_undo(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert program("refine", run) != 0
    assert "nothing to learn from yet" in capsys.readouterr().err
    with Edits(run) as edits:
        second = edits.clustering.rows(1)
        edits.merge([0, 1])
        edits.new(second[:5], "second")
        before = edits.clustering
    for flags in (["--preview"], ["--json"]):
        assert program("refine", run, *flags) == 0
        with Edits(run) as edits:
            assert edits.clustering == before
    preview, _, values = capsys.readouterr().out.partition("{")
    result = json.loads("{" + values)
    assert len(result["moves"][0]["images"]) <= result["changed"]
    assert (result["moves"][0]["from"], result["moves"][0]["to"]) == (0, 3)
    assert f"{result['changed']} images would move:" in preview
    assert program("refine", run, "--yes") == 0
    with Edits(run) as edits:
        assert (edits.clustering.labels[second] == 3).mean() > 0.8
        assert (edits.clustering.labels != before.labels).sum() == result["changed"]
    assert program("edit", run, "undo") == 0
    with Edits(run) as edits:
        assert edits.clustering == before
    assert program("refine", run, "--yes", "--preview") != 0
    assert "give one of them" in capsys.readouterr().err

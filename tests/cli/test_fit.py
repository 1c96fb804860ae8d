"""fit as a user types it."""

from __future__ import annotations

import csv
import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cgmcr2 import CgMCR2, Clustering
from cgmcr2.cli import run
from cgmcr2.training.reader import BatchReader


def test_contents_of_the_run_folder(fitted: Path) -> None:
    names = {path.name for path in fitted.iterdir()}
    assert {"run.json", "labels.csv", "embeddings.npy", "model", "metrics.jsonl"} <= names
    assert "checkpoint.safetensors" not in names
    with (fitted / "labels.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["path"] for row in table] == [str(i) for i in range(300) if i % 3]
    assert list(table[0]) == ["path", "cluster", "name", "confidence", "margin", "outlier"]
    info = json.loads((fitted / "run.json").read_text())
    assert info["finished"]
    assert info["settings"]["hidden_dim"] == 16
    assert "fitted on split 0 (200 rows)" in info["protocol"]


def test_a_finished_run_is_not_repeated_and_another_is_refused(
    features: Path, fitted: Path, quick: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = (fitted / "labels.csv").stat().st_mtime_ns
    assert run("fit", features, "-k", 10, "-o", fitted, *quick) == 0
    assert (fitted / "labels.csv").stat().st_mtime_ns == before
    assert run("fit", features, "-k", 9, "-o", fitted, *quick) == 2
    assert "holds another run" in capsys.readouterr().err


def test_run_json_repeats_the_run(features: Path, fitted: Path, tmp_path: Path) -> None:
    assert run("fit", features, "--config", fitted / "run.json", "-o", tmp_path / "again", "-q") == 0
    assert (tmp_path / "again" / "labels.csv").read_bytes() == (fitted / "labels.csv").read_bytes()


def test_options_take_precedence_over_the_file(features: Path, tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    config.write_text(
        "k = 4\nseed = 7\nwarmup_epochs = 1\nfinetune_epochs = 1\n[settings]\nhidden_dim = 8\neps = 0.3\n"
    )
    assert run("fit", features, "--config", config, "-k", 5, "--set", "eps=1", "-o", tmp_path / "run", "-q") == 0
    parameters = json.loads((tmp_path / "run" / "run.json").read_text())["parameters"]
    assert (parameters["n_clusters"], parameters["random_state"]) == (5, 7)
    assert parameters["settings"] == {"hidden_dim": 8, "eps": 1, "warmup_epochs": 1, "finetune_epochs": 1}


def check_levels(folder: Path, features: Path, tmp_path: Path) -> None:
    """Predictions, exports and the report of a run with levels agree."""
    assert '"merges":' in (folder / "report.html").read_text()
    assert "model/levels.json" in json.loads((folder / "checksums.json").read_text())["files"]
    for level in (2, 4, 7):
        new, table = tmp_path / f"new-{level}.csv", tmp_path / f"table-{level}.csv"
        assert run("predict", folder, features, "--part", "train", "--level", level, "-o", new) == 0
        assert run("export", folder, "--to", "csv", "--level", level, "-o", table) == 0
        predicted, exported = ([row["cluster"] for row in csv.DictReader(path.open())] for path in (new, table))
        assert predicted == exported
        assert len(set(predicted)) == level
    assert run("predict", folder, features, "--level", 9999, "-o", tmp_path / "none.csv") == 2
    assert run("export", folder, "--to", "onnx", "--level", 2, "-o", tmp_path / "onnx") == 2


def test_chosen_number_of_clusters(
    four_groups: Path, quick: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert run("fit", four_groups, "-k", "auto", "-o", folder, *quick) == 0
    assert "4 clusters fit best" in capsys.readouterr().out
    info = json.loads((folder / "run.json").read_text())
    assert (info["parameters"]["n_clusters"], info["choice"]["chosen"]) == ("auto", 4)
    model = CgMCR2.load(folder / "model")
    assert (model.n_clusters, model.n_clusters_) == ("auto", 4)
    assert run("predict", folder, four_groups, "-o", tmp_path / "new.csv") == 0
    assert run("report", folder, "--map", "pca") == 0
    assert 'id="choice"' in (folder / "report.html").read_text()
    check_levels(folder, four_groups, tmp_path)
    capsys.readouterr()
    assert run("fit", four_groups, "-k", "auto", "-o", folder, *quick, "--json") == 0  # of the finished run
    assert json.loads(capsys.readouterr().out)["choice"]["chosen"] == 4


def test_features_of_an_unknown_encoder(tmp_path: Path, quick: list[str]) -> None:
    X = np.random.default_rng(0).standard_normal((40, 8)).astype(np.float32)
    np.save(tmp_path / "plain.npy", X)
    assert run("fit", tmp_path / "plain.npy", "-k", 2, "-o", tmp_path / "run", *quick) == 0
    assert run("predict", tmp_path / "run", tmp_path / "plain.npy", "-o", tmp_path / "labels.csv") == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "number of clusters is missing"),
        (["-k", "three"], "-k three is not a number of clusters; give an integer of at least 2, or auto."),
        (["-k", 201], "only n_samples=200 rows"),
        (["-k", 3, "--set", "gamma=-1"], "gamma must be"),
        (["-k", 3, "--set", "gamma=abc"], "gamma must be a number, but is 'abc'."),
        (["-k", 3, "--set", "gama=1"], "There is no setting named 'gama'; did you mean 'gamma'?"),
        (["-k", 3, "--set", "gamma"], "--set gamma has no value; write --set NAME=VALUE."),
        (["-k", 3, "--config", "no.toml"], "There is no settings file no.toml."),
        (["-k", 3, "--device", "gpu"], "The device 'gpu' cannot be used on this machine"),
    ],
)
def test_invalid_options_are_one_sentence(
    features: Path, tmp_path: Path, words: list[object], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fit", features, "-o", tmp_path / "out", *words) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.startswith("cgmcr2: ")
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


X = np.random.default_rng(0).standard_normal((20, 64)).astype(np.float32)
NOT_FINITE = X.copy()
NOT_FINITE[[2, 5], 0] = np.nan


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"features": X[0]}, "shape (64,)"),
        ({"features": NOT_FINITE}, "(rows 2, 5)"),
        ({"features": X, "labels": [1]}, "20 rows"),
    ],
)
def test_invalid_features_are_one_sentence(
    tmp_path: Path, arrays: dict[str, Any], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "bad.npz", **arrays)
    assert run("fit", tmp_path / "bad.npz", "-k", 3, "-o", tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_folder_of_other_files_is_refused(features: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").touch()
    assert run("fit", features, "-k", 3, "-o", tmp_path) == 2
    assert "is not a run folder; choose a new folder" in capsys.readouterr().err
    assert run("fit", tmp_path / "none.npy", "-k", 3, "-o", tmp_path / "out") == 2
    assert "There is no file" in capsys.readouterr().err


def test_an_interrupted_run_is_resumed(
    features: Path,
    fitted: Path,
    quick: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["fit", features, "-k", 10, "-o", tmp_path / "run", *quick, "--json"]
    read, steps = BatchReader.read, []

    def read_and_interrupt(self: BatchReader, step: int) -> Any:
        steps.append(step)
        if len(steps) == 4:
            os.kill(os.getpid(), signal.SIGINT)
        return read(self, step)

    with monkeypatch.context() as patch:
        patch.setattr(BatchReader, "read", read_and_interrupt)
        assert run(*command) == 130
    output = capsys.readouterr()
    assert "cgmcr2: warning: Interrupted after step" in output.err
    assert "cgmcr2: Interrupted; repeat the command to resume." in output.err
    assert output.out == ""
    assert not (tmp_path / "run" / "labels.csv").exists()
    assert not json.loads((tmp_path / "run" / "run.json").read_text())["finished"]
    assert run(*command) == 0
    assert json.loads(capsys.readouterr().out)["finished"]
    assert (tmp_path / "run" / "labels.csv").read_bytes() == (fitted / "labels.csv").read_bytes()


def test_clusters_of_features_that_start_from_names(four_groups: Path, tmp_path: Path) -> None:
    words = tmp_path / "words.npz"
    np.savez(words, names=["b", "a", "d", "c", "z"], embeddings=np.eye(12)[[1, 0, 3, 2, 9]])
    folder = tmp_path / "run"
    names = ["--names", "a,b,c,d", "--text-embeddings", words]
    assert run("fit", four_groups, *names, "-o", folder, "-q", "--set", "hidden_dim=16", "--set", "n_heads=1") == 0
    clustering = Clustering.load(folder)
    assert clustering.names == ["a", "b", "c", "d"]
    np.testing.assert_array_equal(clustering.labels, [int(id) % 4 for id in clustering.ids])

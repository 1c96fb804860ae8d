"""fit, predict and evaluate on feature files, as a user types them."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from cgmcr2.cli import run

QUICK = ["-q", "--set", "hidden_dim=16", "--set", "warmup_epochs=4", "--set", "finetune_epochs=4", "--set", "n_heads=1"]


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    X, y = load_digits(return_X_y=True)
    path = tmp_path_factory.mktemp("features") / "digits.npz"
    np.savez(path, features=X[:300].astype(np.float32), labels=y[:300], split=np.arange(300) % 3 == 0, odd=y[:300] % 2)
    return path


@pytest.fixture(scope="module")
def fitted(features: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert run("fit", features, "-k", 10, "-o", folder, *QUICK) == 0
    return folder


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_run_folder_holds_what_is_promised(fitted: Path) -> None:
    names = {path.name for path in fitted.iterdir()}
    assert {"run.json", "labels.csv", "embeddings.npy", "model", "metrics.jsonl"} <= names
    assert "checkpoint.safetensors" not in names
    table = rows(fitted / "labels.csv")
    assert [row["path"] for row in table] == [str(i) for i in range(300) if i % 3]
    assert list(table[0]) == ["path", "cluster", "name", "confidence", "margin", "outlier"]
    info = json.loads((fitted / "run.json").read_text())
    assert info["finished"]
    assert info["settings"]["hidden_dim"] == 16
    assert "fitted on split 0 (200 rows)" in info["protocol"]


def test_the_same_command_again_changes_nothing_and_another_is_refused(
    features: Path, fitted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (fitted / "labels.csv").stat().st_mtime_ns
    assert run("fit", features, "-k", 10, "-o", fitted, *QUICK) == 0
    assert (fitted / "labels.csv").stat().st_mtime_ns == before
    assert run("fit", features, "-k", 9, "-o", fitted, *QUICK) == 2
    assert "holds another run" in capsys.readouterr().err


def test_run_json_repeats_the_run(features: Path, fitted: Path, tmp_path: Path) -> None:
    assert run("fit", features, "--config", fitted / "run.json", "-o", tmp_path / "again", "-q") == 0
    assert (tmp_path / "again" / "labels.csv").read_bytes() == (fitted / "labels.csv").read_bytes()


def test_toml_settings_and_flags_that_override_them(features: Path, tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    config.write_text("n_clusters = 4\nhidden_dim = 8\nwarmup_epochs = 1\nfinetune_epochs = 1\nrandom_state = 7\n")
    assert run("fit", features, "--config", config, "-k", 5, "-o", tmp_path / "run", "-q") == 0
    parameters = json.loads((tmp_path / "run" / "run.json").read_text())["parameters"]
    assert (parameters["n_clusters"], parameters["hidden_dim"], parameters["random_state"]) == (5, 8, 7)


def test_predict_and_evaluate_agree(
    features: Path, fitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("predict", fitted, features, "-o", tmp_path / "a.csv", "--part", "test") == 0
    assert run("predict", fitted, features, "-o", tmp_path / "b.csv", "--part", "test") == 0
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    predicted = [int(row["cluster"]) for row in rows(tmp_path / "a.csv")]
    assert len(predicted) == 100
    capsys.readouterr()
    assert run("evaluate", fitted, features, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["sizes"] == np.bincount(predicted, minlength=10).tolist()
    assert result["protocol"] == (
        "fitted on split 0 (200 rows), predicted split 1 (100 rows) with the cluster head, 1 seed"
    )
    assert 0.1 < result["acc"] <= 1
    assert run("evaluate", fitted, features, "--spectral", "--labels", "odd", "--part", "all") == 0
    shown = capsys.readouterr().out
    assert "ACC" in shown
    assert "by spectral clustering" in shown


def bad(tmp_path: Path, **arrays: Any) -> Path:
    path = tmp_path / "bad.npz"
    np.savez(path, **arrays)
    return path


def test_bad_input_is_one_sentence_and_leaves_nothing(
    features: Path, fitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    X = np.random.default_rng(0).standard_normal((20, 64)).astype(np.float32)
    broken = X.copy()
    broken[[2, 5], 0] = np.nan
    out = tmp_path / "out"
    cases: list[tuple[list[object], str]] = [
        (["fit", tmp_path / "none.npy", "-k", 3, "-o", out], "There is no file"),
        (["fit", features, "-o", out], "number of clusters is not given"),
        (["choose-k", features, "--most", 1], "must be at least 2, but is 1"),
        (["choose-k", tmp_path], "name a folder for them with -o"),
        (["fit", features, "-k", "three", "-o", out], "-k three is not a number"),
        (["fit", features, "-k", 201, "-o", out], "only n_samples=200 rows"),
        (["fit", features, "-k", 3, "-o", out, "--set", "gamma=-1"], "gamma must be"),
        (["fit", features, "-k", 3, "-o", out, "--set", "gama=1"], "no setting named 'gama'"),
        (["fit", features, "-k", 3, "-o", out, "--set", "gamma"], "has no value"),
        (["fit", features, "-k", 3, "-o", out, "--preset", "best"], "preset must be one of"),
        (["fit", features, "-k", 3, "-o", out, "--part", "some"], "part must be"),
        (["fit", features, "-k", 3, "-o", out, "--config", tmp_path / "no.toml"], "no settings file"),
        (["fit", bad(tmp_path, features=X[0]), "-k", 3, "-o", out], "have shape (64,)"),
        (["fit", bad(tmp_path, features=broken), "-k", 3, "-o", out], "(rows 2, 5)"),
        (["fit", bad(tmp_path, features=X, labels=[1]), "-k", 3, "-o", out], "20 rows of features but 1 labels"),
        (["fit", features, "-k", 3, "-o", tmp_path], "holds no run; choose a new folder"),
        (["predict", tmp_path, features, "-o", out], "is not a run folder"),
        (["predict", fitted, bad(tmp_path, features=X[:, :9]), "-o", out], "rows of width 9"),
        (["evaluate", fitted, bad(tmp_path, features=X)], "has no 'labels'"),
    ]
    for arguments, sentence in cases:
        if "bad.npz" in str(arguments[1:3]):  # the fixture file is shared: write it again for its case
            arrays = {
                "have shape": {"features": X[0]},
                "(rows 2": {"features": broken},
                "20 rows": {"features": X, "labels": [1]},
            }
            arrays |= {"rows of width": {"features": X[:, :9]}, "has no 'lab": {"features": X}}
            bad(tmp_path, **next(value for key, value in arrays.items() if sentence.startswith(key[:6])))
        assert run(*arguments) == 2, arguments
        error = capsys.readouterr().err
        assert sentence in error
        assert error.startswith("cgmcr2: ")
        assert error.count("\n") == 1
        assert not out.exists()


def test_features_of_another_encoder_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X = np.random.default_rng(0).standard_normal((40, 8)).astype(np.float32)
    np.savez(tmp_path / "a.npz", features=X, fingerprint="aaa")
    np.savez(tmp_path / "b.npz", features=X, fingerprint="bbb")
    assert run("fit", tmp_path / "a.npz", "-k", 2, "-o", tmp_path / "run", *QUICK) == 0
    assert run("predict", tmp_path / "run", tmp_path / "b.npz", "-o", tmp_path / "out.csv") == 2
    assert "made by another encoder (bbb)" in capsys.readouterr().err
    assert not (tmp_path / "out.csv").exists()


def test_ctrl_c_keeps_what_there_is_and_the_same_command_goes_on(features: Path, fitted: Path, tmp_path: Path) -> None:
    program = (
        "import os, signal, sys, cgmcr2.training.reader as r\n"
        "read, count = r.BatchReader.read, [0]\n"
        "def pressing(self, step):\n"
        "    count[0] += 1\n"
        "    if count[0] == 4: os.kill(os.getpid(), signal.SIGINT)\n"
        "    return read(self, step)\n"
        "r.BatchReader.read = pressing\n"
        "from cgmcr2.cli import main; main()"
    )
    command = ["fit", features, "-k", 10, "-o", tmp_path / "run", *QUICK]
    ended = subprocess.run(
        [sys.executable, "-c", program, *map(str, command)], capture_output=True, text=True, check=False
    )
    assert "Stopped by Ctrl-C" in ended.stderr
    assert not json.loads((tmp_path / "run" / "run.json").read_text())["finished"]
    assert run(*command) == 0
    assert (tmp_path / "run" / "labels.csv").read_bytes() == (fitted / "labels.csv").read_bytes()


def test_doctor_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("doctor") == 0
    shown = capsys.readouterr().out
    assert "device cpu" in shown or "device cuda" in shown or "device mps" in shown
    assert "[onnx]" in shown
    assert run("--version") == 0
    assert capsys.readouterr().out.startswith("cgmcr2 0.")


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; sys.argv = ['cgmcr2', '--help']\n"
        "from cgmcr2.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(sorted({'torch', 'numpy', 'sklearn', 'PIL'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown.strip().endswith("[]")

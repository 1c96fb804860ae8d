from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cgmcr2.cli import run
from cgmcr2.experiments.catalog import list_items


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with features of CIFAR-10 in three groups."""
    y = np.arange(60) % 3
    X = (np.eye(6)[y] + 0.1 * np.random.default_rng(0).standard_normal((60, 6))).astype(np.float32)
    folder = tmp_path_factory.mktemp("features")
    np.savez(folder / "cifar10.npz", features=X, labels=y)
    return folder


def test_tables_and_figures_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("reproduce", "--list") == 0
    shown = capsys.readouterr().out
    assert [line.split()[0] for line in shown.splitlines()] == [item.name for item in list_items()]
    assert "table-6   strategies" in shown
    assert run("reproduce", "--list", "--json") == 0
    assert json.loads(capsys.readouterr().out)["items"][0]["number"] == "Table 1"


def test_a_table_by_its_topic(features: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["reproduce", "activation", "--features", features, "-o", tmp_path / "out", "--seeds", 1, "--quick"]
    words += ["--set", "hidden_dim=8", "--set", "batch_size=32", "--set", "embedding_dim=x0.03125", "--in-process"]
    assert run(*words) == 0
    shown = capsys.readouterr()
    assert "Table B.6: Output activation" in shown.out
    assert "CIFAR-10, Softmax, seed 0: ACC" in shown.err
    assert "CIFAR-100 is left out" in shown.out
    files = {"labels", "runs.jsonl", *(f"table-b6.{suffix}" for suffix in ("txt", "md", "tex", "csv"))}
    assert {path.name for path in (tmp_path / "out").iterdir()} == files
    assert '"embedding_dim": 4' in (tmp_path / "out" / "runs.jsonl").read_text()
    assert run(*words, "--json") == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert result["cells"][0]["row"] == "Softmax"
    assert len(result["files"]) == 4


def test_a_figure_of_one_data_set(features: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["reproduce", "Figure B.4", "--features", features, "-o", tmp_path / "out", "-q"]
    small = ["hidden_dim=16", "embedding_dim=8", "batch_size=30", "s=5", "warmup_epochs=1", "finetune_epochs=1"]
    words += [word for item in small for word in ("--set", item)]
    assert run(*words, "--only", "cifar10", "--rows", 40) == 0
    assert "split 0 (40 rows)" in capsys.readouterr().out
    assert (tmp_path / "out" / "figure-b4.pdf").exists()
    assert run(*words, "--only", "flowers102") == 2
    assert "figure-b4 has no data set flowers102; it has cifar10" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["table-99"], "There is no table or figure 'table-99'"),
        ([], "A table or figure, --features and --output are needed"),
        (["table-6", "--set", "gamma"], "--set gamma is not a setting"),
        (["table-6", "--seeds", "0"], "The number of seeds is 0"),
        (["table-6", "--rows", "-5"], "The number of rows is -5"),
        (["table-6", "--set", "ccc.width=1"], "There is no method named 'ccc'"),
        (["table-4", "--set", "moco-v2.width=0"], "width must be at least 1, but is 0"),
        (["table-6", "--only", "cifar"], "There is no data set 'cifar'"),
        (["table-6", "--protocol", "test"], "'test' is not one of 'head', 'spectral', 'train', 'all'"),
    ],
)
def test_user_errors_are_one_sentence(
    words: list[str], sentence: str, features: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("reproduce", *words, "--features", features, "-o", tmp_path / "out", "-q") == 2
    assert sentence in " ".join(capsys.readouterr().err.split())


def test_specification_tables_need_no_features(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("reproduce", "table-a3", "-o", tmp_path / "out") == 0
    assert (tmp_path / "out" / "table-a3.tex").exists()
    assert run("reproduce", "table-a3", "table-6", "-o", tmp_path / "out") == 2
    assert "--features and --output are needed" in capsys.readouterr().err


def test_with_several_items_the_others_are_still_made(
    features: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["reproduce", "table-5", "table-a3", "--features", features, "-o", tmp_path / "out", "-q"]
    assert run(*words) == 0
    assert "Table 5 is left out: MNIST is left out" in capsys.readouterr().out
    assert (tmp_path / "out" / "table-a3.md").exists()

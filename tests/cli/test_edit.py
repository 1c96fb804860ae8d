from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from cgmcr2.cli import run as program
from cgmcr2.runs import Edits

QUICK = ["hidden_dim=16", "warmup_epochs=10", "finetune_epochs=10", "lr=0.01"]


def shell(words: list[str]) -> int:
    return program(*words)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fitted")
    X, y = make_blobs(60, n_features=8, centers=3, random_state=0)
    np.savez(folder / "x.npz", features=X.astype(np.float32), labels=y)
    settings = [word for setting in QUICK for word in ("--set", setting)]
    assert shell(["fit", str(folder / "x.npz"), "-k", "3", "-o", str(folder / "run"), "-q", *settings]) == 0
    return folder / "run"


@pytest.fixture
def run(fitted: Path, tmp_path: Path) -> str:
    return str(shutil.copytree(fitted, tmp_path / "run"))


def test_edits_on_the_command_line(run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    for words in (["rename", "0", "dogs"], ["merge", "dogs", "1"], ["undo"], ["move", "dogs", "5", "6"]):
        assert shell(["edit", run, *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["Rename cluster 0 to 'dogs': 3 clusters now", "Merge clusters 0, 1: 2 clusters now"]
    assert shell(["edit", run, "log"]) == 0
    log = capsys.readouterr().out.splitlines()
    assert [line.endswith("(undone)") for line in log] == [False, True, False, False]
    assert shell(["edit", run, "split", "2", "--preview", "--json"]) == 0
    parts = json.loads(capsys.readouterr().out)["parts"]
    assert shell(["edit", run, "exclude", *parts[1], "--json"]) == 0
    clusters = {value["name"]: value["size"] for value in json.loads(capsys.readouterr().out)["clusters"]}
    assert clusters["Excluded"] == len(parts[1])
    for flag, rows in (("--with-edits", 60 - len(parts[1])), ("--without-edits", 60)):
        table = tmp_path / f"{flag}.csv"
        assert shell(["export", run, "--to", "csv", "-o", str(table), flag, "-q"]) == 0
        assert len(table.read_text().splitlines()) == rows + 1


def test_reading_works_while_another_process_edits(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Edits(run) as edits:
        edits.rename(0, "dogs")
        capsys.readouterr()
        for words in (["log"], ["clusters"], ["split", "0", "--preview"]):
            assert shell(["edit", run, *words]) == 0
        assert "Rename cluster 0 to 'dogs'".lower() in capsys.readouterr().out
        assert shell(["edit", run, "undo"]) == 2
        assert "Another process is writing to" in capsys.readouterr().err


def test_edits_of_other_labels_are_reported(run: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert shell(["edit", run, "rename", "0", "dogs"]) == 0
    log = Path(run) / "edits.jsonl"
    log.write_text(log.read_text().replace('"fit-', '"fit-0'))
    content = log.read_bytes()
    capsys.readouterr()
    predict = ["predict", run, str(tmp_path / "x.npz"), "-o", str(tmp_path / "b.csv")]
    np.savez(tmp_path / "x.npz", features=np.ones((2, 8), np.float32))
    for words in (["edit", run, "clusters"], ["export", run, "--to", "csv", "-o", str(tmp_path / "a.csv")], predict):
        assert shell(words) == 0
        error = capsys.readouterr().err
        assert "cgmcr2: warning: The edits in" in error
        assert error.count("\n") == 1
    assert log.read_bytes() == content


def test_a_rejected_image_leaves_the_cluster(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert shell(["edit", run, "reject", "0", "5"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("Reject cluster 0 for 1 image: ")


def test_a_cluster_can_be_named_after_a_year(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert shell(["edit", run, "rename", "0", "2024"]) == 0
    assert shell(["edit", run, "move", "2024", "5", "5"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "Move 1 image to cluster 0: 3 clusters now"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["log", "x"], "log was given 1 argument; use: cgmcr2 edit RUN log."),
        (["rename", "0"], "rename was given 1 argument; use: cgmcr2 edit RUN rename CLUSTER NAME."),
        (["undo"], "There is no edit to undo."),
        (["renam", "0", "x"], "There is no verb 'renam'; choose from rename, merge, split,"),
        (["back", "x"], "'x' is not a line of the log; give an integer."),
        (["merge", "0", "cats"], "There is no cluster called 'cats'"),
        (["undo", "--preview"], "--preview shows the parts of a split; use it with split."),
    ],
)
def test_invalid_edits_are_one_sentence(
    run: str, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert shell(["edit", run, *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1

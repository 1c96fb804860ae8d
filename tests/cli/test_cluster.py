"""cluster as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cgmcr2.cli import run
from cgmcr2.clustering import Clustering


def test_output(photos: Path, photo_run: Path, quick: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["cluster", photos, "-k", 3, "-o", photo_run, "--encoder", "colours", *quick]
    assert run(*words) == 0  # prints the finished run
    n_clusters = len(Clustering.load(photo_run).clusters)
    assert capsys.readouterr().out.splitlines() == [
        f"60 images in {n_clusters} clusters: {photo_run / 'labels.csv'}",
        f"1 file could not be read: {photo_run / 'errors.csv'}",
        f"Report: {photo_run / 'report.html'}",
    ]
    assert run(*words, "--json") == 0
    values = json.loads(capsys.readouterr().out)
    assert (values["rows"], values["unreadable"], values["choice"]) == (60, 1, None)
    assert values["report"] == str(photo_run / "report.html")
    assert sum(cluster["size"] for cluster in values["clusters"]) == 60


def test_without_a_report(photos: Path, tmp_path: Path, quick: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["cluster", photos, "-k", 2, "-o", tmp_path / "run", "--encoder", "colours", "--no-report", *quick]
    assert run(*words, "--json") == 0
    assert json.loads(capsys.readouterr().out)["report"] is None
    assert not (tmp_path / "run" / "report.html").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--set", "gamma=abc"], "gamma must be a number"),
        (["--set", "presett=paper"], "There is no setting named 'presett'; did you mean 'preset'?"),
        (
            ["--config", "settings.toml"],
            "random_state must be None, a RandomState or an integer from 0 to 2**32 - 1, but is 'one'.",
        ),
        (["--encoder", "bundeld"], "did you mean"),
    ],
)
def test_errors_come_before_the_images_are_embedded(
    photos: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("settings.toml").write_text('seed = "one"\n')
    assert run("cluster", photos, "-k", 3, "-o", "run", *words) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
    assert not Path("run").exists()


def test_clusters_that_start_from_names(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, quick = tmp_path / "run", ["--no-report", "-q", "--set", "hidden_dim=16", "--set", "n_heads=1"]
    options = ["--names", "red, other", "--encoder", "reading-colours", "-o", folder, *quick]
    assert run("cluster", photos, *options) == 0
    clustering = Clustering.load(folder)
    assert clustering.names == ["red", "other"]
    assert [label == 0 for label in clustering.labels] == [int(id[:2]) % 3 == 0 for id in clustering.ids]
    assert run("cluster", photos, *options) == 0  # finished
    options[1] = "red,blue"
    assert run("cluster", photos, *options) == 2
    assert "holds another run (different names)" in capsys.readouterr().err


def test_further_clusters_for_what_no_name_describes(photos: Path, tmp_path: Path) -> None:
    folder, quick = tmp_path / "run", ["--no-report", "-q", "--set", "hidden_dim=16", "--set", "n_heads=1"]
    options = ["-k", "auto", "--names", "red", "--encoder", "reading-colours", "-o", folder, *quick]
    assert run("cluster", photos, *options) == 0
    clustering = Clustering.load(folder)
    assert clustering.names == ["red", "Cluster 1", "Cluster 2"]
    colours = [int(id[:2]) % 3 for id in clustering.ids]
    assert [label == 0 for label in clustering.labels] == [colour == 0 for colour in colours]
    assert len(set(zip(clustering.labels.tolist(), colours, strict=True))) == 3
    assert run("cluster", photos, *options) == 0  # finished


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--names", "red"], "holds 1 names; give at least 2"),
        (["--names", "red,Red"], "holds a name twice"),
        (["--names", "red,blue", "-k", "3"], "-k 3 and --names exclude each other"),
        (["--names", "red,other", "-k", "auto"], "'other' and 'auto' both stand for images that no name describes"),
        (["--names", "red,blue"], "The encoder colours does not read text; names need an encoder that reads text"),
        (["--names", "red,blue", "--preset", "paper"], "need the preset auto"),
        (["-k", "3", "--text-embeddings", "words.npz"], "give --names as well"),
    ],
)
def test_invalid_names(
    words: list[str], message: str, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("cluster", photos, *words, "--encoder", "colours", "-o", tmp_path / "run", "-q") == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run" / "run.json").exists()

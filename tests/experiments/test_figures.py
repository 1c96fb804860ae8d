"""A figure is of the training that the paper describes, looked at between epochs, and is drawn again without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cgmcr2.cli import run
from cgmcr2.evaluation import clustering_accuracy
from cgmcr2.experiments import figures, observe
from cgmcr2.experiments.experiment import load_experiment
from cgmcr2.experiments.figures import FIGURES, draw_figure, draw_sensitivity, find, list_all
from cgmcr2.experiments.run import Reproduction, Value
from cgmcr2.features.sources import load_feature_file

SMALL: dict[str, Any] = {"hidden_dim": 16, "embedding_dim": 8, "batch_size": 60, "lr": 3e-3, "s": 5}
SMALL |= {"warmup_epochs": 1, "finetune_epochs": 2}


@pytest.fixture(autouse=True)
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer pixels, to be quick."""
    monkeypatch.setattr(figures.figures, "DPI", 50)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Features of CIFAR-10 and of CIFAR-100 with its 20 kinds, made up."""
    folder = tmp_path_factory.mktemp("store")
    random = np.random.default_rng(0)
    for name, classes in (("cifar10", 10), ("cifar100-tiny", 100)):
        y = np.arange(200) % classes
        X = 2 * random.standard_normal((classes, 12))[y] + random.standard_normal((200, 12))
        arrays = {"labels": y, "coarse_labels": y % 20, "split": (np.arange(200) >= 120).astype(int)}
        np.savez(folder / f"{name}.npz", features=X.astype(np.float32), **arrays)
    return folder


def test_what_is_seen_is_what_a_training_gives(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = load_feature_file(store / "cifar10.npz")
    trained = []

    def train(*arguments: Any, **keywords: Any) -> Any:
        trained.append(original(*arguments, **keywords))
        return trained[-1]

    original = observe.train
    monkeypatch.setattr(observe, "train", train)
    seen = observe.observe("cifar10", file, settings=SMALL, epochs=(1, 2), cache=tmp_path)
    assert [snapshot.epoch for snapshot in seen.snapshots] == [1, 2, 3]  # those asked for, and the last
    assert seen.protocol.startswith("fitted on split 0 (120 rows), predicted split 1 (80 rows) with the cluster head")
    assert seen.curves.warmup_steps == seen.curves.steps_per_epoch == 2
    assert len(seen.curves.terms["R"]) == 6
    assert seen.curves.scores["acc"][-1] == seen.snapshots[-1].acc
    record = trained[0].history[-1]
    assert seen.curves.terms["Lncut"][-1] == pytest.approx(record["cut"] + record["penalty"])
    test_rows = np.flatnonzero(file.split == 1)
    np.testing.assert_array_equal(seen.X, file.features[test_rows])
    np.testing.assert_array_equal(seen.labels, file.labels[test_rows])
    assert seen.snapshots[-1].acc == clustering_accuracy(seen.labels, seen.snapshots[-1].Pi.argmax(1))

    again = observe.observe("cifar10", file, settings=SMALL, epochs=(1, 2), cache=tmp_path)
    assert len(trained) == 1  # it was kept
    np.testing.assert_array_equal(again.snapshots[1].Z, seen.snapshots[1].Z)
    assert again.curves == seen.curves
    observe.observe("cifar10", file, settings={**SMALL, "gamma": 3.0}, epochs=(1, 2), cache=tmp_path)
    assert len(trained) == 2  # with other settings it is another training
    fewer = observe.observe("cifar10", file, settings=SMALL, limit=50)
    assert "split 0 (50 rows)" in fewer.protocol


def test_every_figure_of_the_paper_is_drawn(store: Path, tmp_path: Path) -> None:
    notes = []
    for figure in FIGURES:
        drawn = draw_figure(figure, store, tmp_path / "out", settings=SMALL)
        notes += drawn.notes
        assert [path.suffix for path in drawn.paths] == [".png", ".pdf"]
        with Image.open(drawn.paths[0]) as image:
            assert np.asarray(image.convert("L"), dtype=float).std() > 5
        assert drawn.paths[1].read_bytes()[:5] == b"%PDF-"
    assert sum(note.startswith("TinyImageNet is left out") for note in notes) == 3
    assert any(note.startswith("an encoder that is not named") and "hidden_dim 16" in note for note in notes)
    assert {path.name for path in (tmp_path / "out" / "observed").iterdir()} == {
        "cifar10-0.npz",
        "cifar20-0.npz",
        "cifar100-0.npz",
    }


def test_by_the_command_line(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("reproduce", "--list") == 0
    shown = capsys.readouterr().out
    assert [line.split()[0] for line in shown.splitlines()] == [each.name for each in list_all()]
    assert {f"figure-{number}" for number in (1, 2, 3, 4, 5, "b1", "b2", "b3", "b4")} <= set(shown.split())
    words = ["reproduce", "Figure B.4", "--features", store, "-o", tmp_path / "out", "--only", "cifar10", "-q"]
    small = [word for item in SMALL.items() for word in ("--set", "{}={}".format(*item))]
    assert run(*words, "--rows", 60, *small) == 0
    assert "split 0 (60 rows)" in capsys.readouterr().out
    assert (tmp_path / "out" / "figure-b4.pdf").exists()
    assert run(*words[:-3], "--only", "mnist", *small) == 2
    assert "So there is nothing to draw" in capsys.readouterr().err
    assert run(*words[:-3], "--only", "flowers102") == 2
    assert "figure-b4 has no data set flowers102; it has cifar10" in capsys.readouterr().err
    with pytest.raises(ValueError, match="There is no experiment 'figure-9'"):
        find("figure-9")


def test_sensitivity_is_drawn_of_the_tables_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = load_experiment("figure-5")
    values = [
        Value(row.label, name, column, 50.0 + number, 1.0, 3 if number else 0, float("nan"), float("nan"))
        for number, row in enumerate(experiment.rows)
        for name in experiment.datasets
        for column in experiment.columns
    ]
    given: dict[str, Any] = {}

    def sensitivity(panels: Any, x: str, lines: str, **keywords: Any) -> Any:
        given.update(panels=panels, x=x, lines=lines)
        return original(panels, x, lines, **keywords)

    original = figures.figures.sensitivity
    monkeypatch.setattr(figures.figures, "sensitivity", sensitivity)
    reproduction = Reproduction(experiment, list(experiment.datasets), values, ["Ours is of one seed."])
    drawn = draw_sensitivity(reproduction, tmp_path, quick=True)
    assert [path.name for path in drawn.paths] == ["figure-5.png", "figure-5.pdf"]
    assert (given["x"], given["lines"]) == ("hidden_dim", "depth")
    points = given["panels"]["CIFAR-100"]
    assert len(points) == 15  # the first has no seed that finished
    assert points[-1] == {"hidden_dim": 512, "depth": 4, "acc": (65.0, 1.0), "nmi": (65.0, 1.0)}  # as it was run
    draw_sensitivity(reproduction, tmp_path)
    assert given["panels"]["CIFAR-100"][-1]["hidden_dim"] == 4096


def test_a_folder_of_something_else_is_left_alone(store: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ValueError, match="holds other things than tables and figures"):
        draw_figure(FIGURES[1], store, tmp_path, settings=SMALL)

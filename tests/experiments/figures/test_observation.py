from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cgmcr2.evaluation import clustering_accuracy
from cgmcr2.experiments.figures.observation import observe_training
from cgmcr2.features.sources import FeatureFile, load_feature_file
from cgmcr2.training import resolve, train


@pytest.fixture
def file(figure_features: Path) -> FeatureFile:
    return load_feature_file(figure_features / "cifar10.npz")


def test_an_observation_matches_a_training(file: FeatureFile, small_settings: dict[str, Any]) -> None:
    observation = observe_training("cifar10", file, settings=small_settings, epochs=(1, 2))
    assert [snapshot.epoch for snapshot in observation.snapshots] == [1, 2, 3]  # those requested, and the last
    protocol = "fitted on split 0 (120 rows), predicted split 1 (80 rows) with the cluster head"
    assert observation.protocol.startswith(protocol)
    curves = observation.curves
    assert curves.warmup_steps == curves.steps_per_epoch == 2
    assert len(curves.terms["R"]) == 6
    assert curves.scores["acc"][-1] == observation.snapshots[-1].acc

    X = np.asarray(file.features)[file.rows("train")]
    settings = resolve("paper", 120, 10, 12, {**small_settings, "gamma": 70, "eps": 0.5})
    record = train(X, 10, settings).history[-1]
    assert curves.terms["Lncut"][-1] == pytest.approx(record["cut"] + record["penalty"])

    test_rows = file.rows("test")
    np.testing.assert_array_equal(observation.X, np.asarray(file.features)[test_rows])
    assert file.labels is not None
    np.testing.assert_array_equal(observation.labels, file.labels[test_rows])
    last = observation.snapshots[-1]
    assert last.acc == clustering_accuracy(observation.labels, last.Pi.argmax(1))


def test_a_cached_observation_needs_no_training(
    file: FeatureFile, small_settings: dict[str, Any], tmp_path: Path
) -> None:
    def observe(**changes: float) -> Any:
        return observe_training("cifar10", file, settings={**small_settings, **changes}, cache=tmp_path)

    first = observe()
    path = tmp_path / "cifar10-0.npz"
    modified = path.stat().st_mtime_ns
    again = observe()
    assert path.stat().st_mtime_ns == modified
    np.testing.assert_array_equal(again.snapshots[1].Z, first.snapshots[1].Z)
    assert again.curves == first.curves
    observe(gamma=3.0)
    assert path.stat().st_mtime_ns != modified


def test_the_number_of_training_rows_can_be_limited(file: FeatureFile, small_settings: dict[str, Any]) -> None:
    assert "split 0 (50 rows)" in observe_training("cifar10", file, settings=small_settings, max_rows=50).protocol


def test_labels_are_required(file: FeatureFile) -> None:
    with pytest.raises(ValueError, match="The features of cifar10 have no labels"):
        observe_training("cifar10", FeatureFile(file.features))

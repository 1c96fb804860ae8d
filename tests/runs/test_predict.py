from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest

from cgmcr2.runs import Edits, Predictor, RunFolder


def test_predictions_of_the_fitted_rows_are_their_labels(run: RunFolder, features: Path) -> None:
    predicted = Predictor(run).predict_features(features, part="train").clustering
    assert np.array_equal(predicted.labels, run.clustering.labels)
    np.testing.assert_allclose(predicted.confidence, run.clustering.confidence, atol=1e-6)


def test_evaluation_carries_its_protocol(run: RunFolder, features: Path) -> None:
    evaluation = Predictor(run.path).evaluate(features)
    assert evaluation.scores.acc == 1
    assert sum(evaluation.sizes) == 30
    assert str(evaluation.protocol) == (
        "fitted on split 0 (60 rows), predicted split 1 (30 rows) with the cluster head, 1 seed"
    )
    spectral = Predictor(run).evaluate(features, spectral=True)
    assert "spectral clustering" in str(spectral.protocol)


def test_names_and_merges_of_the_run_apply_to_predictions(run: RunFolder, features: Path, tmp_path: Path) -> None:
    shutil.copytree(run.path, tmp_path / "run")
    with Edits(tmp_path / "run") as edits:
        edits.rename(0, "first")
        edits.merge([0, 2])
    before = Predictor(run).predict_features(features).clustering
    predicted = Predictor(tmp_path / "run").predict_features(features).clustering
    assert predicted.names[0] == "first"
    assert np.array_equal(predicted.labels, np.where(before.labels == 2, 0, before.labels))
    assert predicted.probabilities is not None
    assert before.probabilities is not None
    np.testing.assert_allclose(predicted.probabilities[:, 0], before.probabilities[:, [0, 2]].sum(1), atol=1e-6)
    as_fitted = Predictor(RunFolder(tmp_path / "run", with_edits=False)).predict_features(features).clustering
    assert as_fitted == before


def test_new_rows_follow_the_nearest_edited_rows(run: RunFolder, features: Path, tmp_path: Path) -> None:
    """The rows of a cluster are divided by hand; the same rows, predicted again, are divided in the same way."""
    shutil.copytree(run.path, tmp_path / "run")
    rows = run.fitted.rows(1)
    assert run.fitted.embedding is not None
    side = run.fitted.embedding[rows] @ run.fitted.embedding[rows[0]]
    half = rows[np.argsort(side)[: len(rows) // 2]]
    with Edits(tmp_path / "run") as edits:
        edits.new(half, "half")
        edited = edits.clustering
    predicted = Predictor(tmp_path / "run").predict_features(features, part="train").clustering
    assert predicted.names[3] == "half"
    assert (predicted.labels == edited.labels).mean() > 0.8  # neighbours on the border may differ
    assert set(predicted.labels[rows].tolist()) == {1, 3}
    assert predicted.probabilities is not None
    np.testing.assert_allclose(predicted.probabilities.sum(1), 1, atol=1e-5)
    assert np.array_equal(predicted.probabilities.argmax(1), predicted.labels)


def test_features_of_another_encoder_are_refused(run: RunFolder, tmp_path: Path) -> None:
    np.save(tmp_path / "wide.npy", np.ones((2, 9), dtype=np.float32))
    with pytest.raises(ValueError, match=r"has rows of 9 features, but .* was fitted on 8; use features of the same"):
        Predictor(run).predict_features(tmp_path / "wide.npy")
    with pytest.raises(ValueError, match="was fitted on features, not on images"):
        Predictor(run).predict_images(tmp_path)


def test_an_unfinished_run_is_one_sentence(run: RunFolder, tmp_path: Path) -> None:
    dataclasses.replace(run.info, finished=False).write(tmp_path / "run.json")
    with pytest.raises(ValueError, match="is an unfinished run; repeat its command to resume it"):
        Predictor(tmp_path)

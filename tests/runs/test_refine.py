from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from cgmcr2 import Clustering
from cgmcr2.runs import Edits, Predictor, Refiner, RunFolder, check_run


@pytest.fixture
def folder(run: RunFolder, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run.path, tmp_path / "run"))


def true_labels(features: Path) -> np.ndarray:
    with np.load(features) as file:
        return np.asarray(file["labels"][~file["split"]])


def merged_clusters(edits: Edits, features: Path) -> tuple[np.ndarray, np.ndarray]:
    """Merge two of the three clusters, and return the rows of both groups in the merged one."""
    edits.merge([0, 1])
    y = true_labels(features)
    rows = edits.clustering.rows(0)
    kinds = np.unique(y[rows])
    assert len(kinds) == 2
    first, second = (rows[y[rows] == kind] for kind in kinds)
    return first, second


def test_other_images_follow_a_few_answers(folder: Path, features: Path) -> None:
    with Edits(folder) as edits:
        first, second = merged_clusters(edits, features)
        edits.lock(first[:2])
        edits.new(second[:2], "second")
        edits.lock(second[:2])
        before = edits.clustering
        refinement = Refiner(edits).refine()
        assert edits.clustering is before
        assert {(move.origin, move.target) for move in refinement.moves} == {(0, 3)}
        assert set(refinement.moves[0].rows) == set(second[2:])
        after = refinement.accept()
        assert (after.labels[second] == 3).all()
        assert (after.labels[first] == 0).all()
        assert len(edits.log) == 5
        assert edits.undo() == before
    assert check_run(folder) == []


def test_constraints_are_respected(folder: Path, features: Path) -> None:
    with Edits(folder) as edits:
        _, second = merged_clusters(edits, features)
        edits.new(second[:5], "second")
        edits.lock([second[5]])  # in the first cluster, against all neighbours
        edits.exclude([second[6]])
        edits.reject([second[7]], [3])
        refinement = Refiner(edits).refine()
        assert not set(refinement.rows) & set(second[:8])
        assert set(refinement.rows) & set(second[8:])
        after = refinement.accept()
        assert (after.labels[second[:5]] == 3).all()
        assert after.labels[second[5]] == 0
        assert after.labels[second[6]] == after.excluded
        assert after.labels[second[7]] != 3
        asked = {question.row for question in Refiner(edits).questions(60)}
        assert not asked & set(second[:7])
        assert asked & set(second[7:])


def test_a_part_of_a_refinement_can_be_accepted(folder: Path, features: Path) -> None:
    with Edits(folder) as edits:
        first, second = merged_clusters(edits, features)
        edits.lock(first[:2])
        edits.new(second[:2], "second")
        edits.lock(second[:2])
        refinement = Refiner(edits).refine()
        assert refinement.accept([]) == edits.clustering
        after = refinement.accept(second[2:5])
        assert (after.labels[second[2:5]] == 3).all()
        assert (after.labels[second[5:]] == 0).all()


def test_the_current_cluster_is_always_an_answer(folder: Path, features: Path) -> None:
    with Edits(folder) as edits:
        first, second = merged_clusters(edits, features)
        edits.lock(first[:2])
        edits.new(second[:2], "second")
        edits.lock(second[:2])
        questions = Refiner(edits).questions(60)
        assert all(edits.clustering.labels[question.row] in (question.first, question.second) for question in questions)
        assert any(edits.clustering.labels[question.row] == question.second for question in questions)


def test_nothing_to_learn_from(folder: Path) -> None:
    with Edits(folder) as edits:
        edits.rename(0, "dogs")
        with pytest.raises(ValueError, match="nothing to learn from yet"):
            Refiner(edits).refine()


def test_without_features(folder: Path, features: Path) -> None:
    with Edits(folder) as edits:
        edits.lock([0])
        edits.run.info.source = str(features.with_name("missing.npz"))
        with pytest.raises(ValueError, match=r"needs the features of the run, but .*missing.npz"):
            Refiner(edits).refine()


def answered(edits: Edits, features: Path) -> np.ndarray:
    """Merge two clusters, name some images of the second group again, and return all of its rows."""
    _, second = merged_clusters(edits, features)
    edits.new(second[:5], "second")
    return second


def test_predict_uses_the_refined_model_while_the_refinement_is_in_effect(folder: Path, features: Path) -> None:
    def predicted() -> Clustering:
        return Predictor(folder).predict_features(features, part="train").clustering

    with Edits(folder) as edits:
        second = answered(edits, features)
        followed = predicted()
        after = Refiner(edits).refine().accept()
        refined = predicted()
        assert (refined.labels[second] == after.labels[second]).mean() > 0.9
        edits.merge([2, 3])
        assert (predicted().labels == np.where(refined.labels == 3, 2, refined.labels)).all()
        edits.undo()
        edits.undo()
        assert (predicted().labels == followed.labels).all()
        edits.redo()
        assert predicted() == refined


def test_a_second_refinement_starts_from_the_fit(folder: Path, features: Path) -> None:
    with Edits(folder) as edits:
        answered(edits, features)
        refiner = Refiner(edits)
        refinement = refiner.refine()
        refinement.accept()
        again = refiner.refine()
        assert np.allclose(again.probabilities, refinement.probabilities)
        assert again.moves == []
        assert again.accept() == edits.clustering
        edits.lock([0])
        with pytest.raises(ValueError, match="edited after this refinement; refine again"):
            refinement.accept()


def test_a_crash_before_the_edit_leaves_a_valid_run(
    folder: Path, features: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Edits(folder) as edits:
        answered(edits, features)
        with monkeypatch.context() as patch:
            patch.setattr(Edits, "refine", lambda *_: (_ for _ in ()).throw(OSError("no space")))
            with pytest.raises(OSError, match="no space"):
                Refiner(edits).refine().accept()
        before = edits.clustering
        assert check_run(folder) == []
        orphan = next(folder.glob("refined-*"))
        edits.lock([0])
        after = Refiner(edits).refine().accept()
        assert after != before
        models = {path.parent for path in folder.glob("refined-*/model.safetensors")}
        assert len(models) == 1
        assert orphan not in models
    assert check_run(folder) == []
    assert RunFolder(folder).clustering == after


def test_onnx_export_has_the_refined_clusters(folder: Path, features: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    onnxruntime = pytest.importorskip("onnxruntime")
    from cgmcr2.runs.onnx import export_onnx

    with Edits(folder) as edits:
        second = answered(edits, features)
        Refiner(edits).refine().accept()
        X = Refiner(edits).features[second]
    path = export_onnx(folder, tmp_path / "onnx").path
    session = onnxruntime.InferenceSession(path / "model.onnx")
    labels = session.run(["cluster"], {session.get_inputs()[0].name: X})[0]
    assert (labels == 3).mean() > 0.9

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cgmcr2 import Clustering
from cgmcr2.clustering.edits import check_unmoved
from cgmcr2.model.levels import Levels, write_levels

# Two clusters; the first has the leaves 0, 2 and 3, the second one leaf.
LEVELS = Levels(
    2, (2,), (0, 1, 2, 3), (0, 1, 0, 0), ((2, 3), (0, 2), (0, 1)), ((1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0.6, 0.8))
)


@pytest.fixture
def clustering() -> Clustering:
    Z = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0.6, 0.8]])
    Pi = [[0.7, 0.3], [0.2, 0.8], [0.9, 0.1], [0.6, 0.4]]
    return Clustering(["a", "b", "c", "d"], [0, 1, 0, 0], embedding=Z, probabilities=Pi, names=["cats", "dogs"])


def test_a_coarser_level_merges_and_keeps_the_name_of_the_larger_cluster(clustering: Clustering) -> None:
    merged = clustering.at_level(LEVELS, 1)
    assert merged.labels.tolist() == [0] * 4
    assert merged.names[0] == "cats"
    assert merged.merged == {1: 0}
    np.testing.assert_allclose(merged.confidence, 1)


def test_a_finer_level_divides_and_names_the_parts_after_the_cluster(clustering: Clustering) -> None:
    finer, finest = (clustering.at_level(LEVELS, m) for m in (3, 4))
    assert finer.labels.tolist() == [0, 1, 2, 2]
    assert finer.names == ["cats", "dogs", "cats (2)"]
    assert finest.labels.tolist() == [0, 1, 2, 3]
    assert finest.names == ["cats", "dogs", "cats (2)", "cats (3)"]
    assert finest.probabilities is not None
    np.testing.assert_allclose(finest.probabilities.sum(1), 1)
    assert (finest.probabilities.argmax(1) == finest.labels).all()
    np.testing.assert_array_equal(finest.confidence, clustering.confidence)


def test_the_fitted_level_is_the_clustering_itself(clustering: Clustering) -> None:
    assert clustering.at_level(LEVELS, 2) == clustering


def test_a_finer_level_needs_the_embedding(clustering: Clustering) -> None:
    bare = Clustering(clustering.ids, clustering.labels)
    assert bare.at_level(LEVELS, 1).clusters == [0]
    with pytest.raises(ValueError, match="need the embedding"):
        bare.at_level(LEVELS, 3)


def test_a_folder_is_loaded_at_a_level(clustering: Clustering, tmp_path: Path) -> None:
    clustering.save(tmp_path)
    with pytest.raises(FileNotFoundError, match="only a run with -k auto has them"):
        Clustering.load(tmp_path, level=3)
    (tmp_path / "model").mkdir()
    write_levels(tmp_path / "model", LEVELS)
    assert Clustering.load(tmp_path, level=3).labels.tolist() == [0, 1, 2, 2]


def test_edits_that_move_images_invalidate_the_levels(clustering: Clustering) -> None:
    check_unmoved(clustering, clustering.rename(0, "tigers"))
    for edited in (clustering.move([0], 1), clustering.new([0])):
        with pytest.raises(ValueError, match="edits have moved images"):
            check_unmoved(clustering, edited)

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from cgmcr2.consensus import ConsensusClustering
from cgmcr2.evaluation import clustering_accuracy


@parametrize_with_checks([ConsensusClustering(n_clusters=3)])
def test_scikit_learn_contract(estimator: Any, check: Any) -> None:
    check(estimator)


def test_new_rows_go_to_the_nearest_centroid(groups: Any) -> None:
    X, y = groups
    model = ConsensusClustering(n_clusters=4).fit(X[:300])
    assert clustering_accuracy(y[:300], model.labels_) > 0.97
    assert clustering_accuracy(y[300:], model.predict(X[300:])) > 0.97


@pytest.mark.parametrize("k", [0, 11, 2.5, True])
def test_invalid_n_clusters(k: Any) -> None:
    with pytest.raises(ValueError, match="n_clusters must be an integer between 1 and n_samples=10"):
        ConsensusClustering(n_clusters=k).fit(np.random.default_rng(0).standard_normal((10, 3)))


def test_three_rows_in_three_clusters() -> None:
    assert len(set(ConsensusClustering(3).fit(np.eye(3, dtype=np.float32)).labels_.tolist())) == 3

"""k-means and spherical k-means against the best of all partitions of a small data set."""

from __future__ import annotations

import itertools

import numpy as np

from cgmcr2._arrays import unit_rows
from cgmcr2.baselines import KMeans, SphericalKMeans


def test_k_means_finds_the_best_partition() -> None:
    X = np.random.default_rng(0).standard_normal((8, 2)).astype(np.float32)
    best = np.inf
    for y in itertools.product(range(2), repeat=8):
        groups = [X[np.array(y) == c] for c in range(2)]
        best = min(best, sum(((g - g.mean(0)) ** 2).sum() for g in groups if len(g)))
    assert np.isclose(KMeans(2, normalize=False).fit(X).inertia_, best, rtol=1e-4)


def test_spherical_k_means_finds_the_best_partition() -> None:
    X = np.random.default_rng(1).standard_normal((8, 3)).astype(np.float32)
    U = unit_rows(X)
    best = max(
        sum(np.linalg.norm(U[np.array(y) == c].sum(0)) for c in range(2)) for y in itertools.product(range(2), repeat=8)
    )
    model = SphericalKMeans(2, n_init=30).fit(X)
    assert np.isclose(model.objective_, best, rtol=1e-4)
    assert (model.predict(100 * X) == model.labels_).all()  # invariant to scale


def test_normalisation_of_k_means_is_optional() -> None:
    X = np.array([[1, 0], [9, 0], [0, 1], [0, 9.0]])
    assert (KMeans(2).fit_predict(X)[[0, 2]] == KMeans(2).fit_predict(X)[[1, 3]]).all()
    assert KMeans(2, normalize=False).fit(X).inertia_ > 1

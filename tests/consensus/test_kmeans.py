from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans

from cgmcr2.consensus.kmeans import kmeans, plus_plus_centroids


def _blobs(n: int = 600, k: int = 5) -> torch.Tensor:
    random = np.random.default_rng(0)
    return torch.from_numpy(random.standard_normal((k, 8))[random.integers(k, size=n)] * 2).float() + 0.5 * torch.randn(
        n, 8, generator=torch.Generator().manual_seed(0)
    )


@pytest.mark.parametrize(("k", "tolerance"), [(5, 1e-3), (30, 0.02)])
def test_inertia_is_as_low_as_scikit_learn(k: int, tolerance: float) -> None:
    X = _blobs(k=k)
    labels, inertia = kmeans(X, k, 10, torch.Generator().manual_seed(0))
    assert labels.shape == (10, 600)
    peer = KMeans(k, n_init=10, random_state=0).fit(X.numpy())
    assert inertia.min().item() == pytest.approx(peer.inertia_, rel=tolerance)


@pytest.mark.parametrize("k", [5, 30])
def test_inertia_is_that_of_the_labels(k: int) -> None:
    X = _blobs(k=k)
    labels, inertia = kmeans(X, k, 3, torch.Generator().manual_seed(0))
    for partition, value in zip(labels, inertia, strict=True):
        clusters = [X[partition == c] for c in range(k)]
        assert value.item() == pytest.approx(sum((U - U.mean(0)).square().sum().item() for U in clusters), rel=1e-3)


@pytest.mark.parametrize("k", [5, 30])
def test_block_size_does_not_matter(k: int) -> None:
    X = _blobs(k=k)
    whole = kmeans(X, k, 3, torch.Generator().manual_seed(1))[0]
    assert torch.equal(whole, kmeans(X, k, 3, torch.Generator().manual_seed(1))[0])
    assert torch.equal(whole, kmeans(X, k, 3, torch.Generator().manual_seed(1), block_entries=3 * k * 70)[0])


def test_fewer_points_than_clusters_and_equal_points() -> None:
    X = torch.ones(4, 3)
    labels, inertia = kmeans(X, 4, 2, torch.Generator().manual_seed(0))
    assert labels.min() >= 0
    assert labels.max() < 4
    assert inertia.abs().max() < 1e-4
    assert plus_plus_centroids(X[:1], 3, 2, torch.Generator().manual_seed(0)).shape == (2, 3, 3)

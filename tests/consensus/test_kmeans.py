from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.metrics import rand_score

from cgmcr2.consensus import kmeans as module
from cgmcr2.consensus.kmeans import kmeans, spread_centres


def _blobs(n: int = 600, k: int = 5) -> torch.Tensor:
    random = np.random.default_rng(0)
    return torch.from_numpy(random.standard_normal((k, 8))[random.integers(k, size=n)] * 2).float() + 0.5 * torch.randn(
        n, 8, generator=torch.Generator().manual_seed(0)
    )


def test_as_good_as_scikit_learns() -> None:
    X = _blobs()
    labels, left = kmeans(X, 5, 10, torch.Generator().manual_seed(0))
    assert labels.shape == (10, 600)
    peer = KMeans(5, n_init=10, random_state=0).fit(X.numpy())
    assert left.min().item() == pytest.approx(peer.inertia_, rel=1e-3)


def test_what_is_left_is_that_of_the_labels() -> None:
    X = _blobs()
    labels, left = kmeans(X, 5, 3, torch.Generator().manual_seed(0))
    for own, distance in zip(labels, left, strict=True):
        spread = sum((X[own == c] - X[own == c].mean(0)).square().sum() for c in range(5))
        assert distance.item() == pytest.approx(float(spread), rel=1e-3)


def test_blocks_do_not_matter_and_it_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    X = _blobs()
    whole = kmeans(X, 5, 3, torch.Generator().manual_seed(1))[0]
    assert torch.equal(whole, kmeans(X, 5, 3, torch.Generator().manual_seed(1))[0])
    monkeypatch.setattr(module, "ENTRIES", 15 * 70)
    assert torch.equal(whole, kmeans(X, 5, 3, torch.Generator().manual_seed(1))[0])


def test_fewer_points_than_clusters_and_equal_points() -> None:
    X = torch.ones(4, 3)
    labels, left = kmeans(X, 4, 2, torch.Generator().manual_seed(0))
    assert labels.min() >= 0
    assert labels.max() < 4
    assert left.abs().max() < 1e-4
    assert spread_centres(X[:1], torch.ones(1), 3, 2, torch.Generator().manual_seed(0)).shape == (2, 3, 3)


def test_a_weight_counts_as_so_many_rows() -> None:
    X = _blobs(60, 3)
    times = torch.arange(60) % 3 + 1
    weighted = kmeans(X, 3, 5, torch.Generator().manual_seed(0), weights=times.float())
    repeated = kmeans(X.repeat_interleave(times, dim=0), 3, 5, torch.Generator().manual_seed(0))
    assert weighted[1].min().item() == pytest.approx(repeated[1].min().item(), rel=1e-4)
    first = times.cumsum(0) - times
    assert rand_score(weighted[0][weighted[1].argmin()], repeated[0][repeated[1].argmin()][first]) == 1


def test_weights_keep_a_large_cluster_whole() -> None:
    X = torch.cat([torch.linspace(0, 2, 400), torch.full((10,), 6.0), torch.full((10,), 7.0)])[:, None]
    y = torch.tensor([0] * 400 + [1] * 10 + [2] * 10)
    weights = 1 / torch.bincount(y).float()[y]
    for given, right in ((None, False), (weights, True)):
        labels, left = kmeans(X, 3, 10, torch.Generator().manual_seed(0), weights=given)
        assert (rand_score(y, labels[left.argmin()]) == 1) == right

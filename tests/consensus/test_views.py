from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from cgmcr2.consensus.views import linear_views, smoothed_views, view_neighbours

Array = np.ndarray[Any, Any]


def test_views_are_centred_decorrelated_and_scaled(gaussian: Array) -> None:
    views = linear_views(gaussian, 6, seed=0)
    centred = F.normalize(torch.from_numpy(gaussian), dim=1) - views.mean
    for matrix in (views.standard, views.white):
        mapped = centred @ matrix
        assert mapped.mean(0).abs().max() < 1e-5
        assert mapped.square().mean().item() == pytest.approx(1, rel=1e-3)
        covariance = mapped.T @ mapped / len(mapped)
        assert (covariance - covariance.diag().diag()).abs().max() < 1e-4
    standard, white = ((centred @ matrix).var(0) for matrix in (views.standard, views.white))
    assert white.max() / white.min() < standard.max() / standard.min()


def test_views_are_reproducible_and_have_a_fixed_sign(gaussian: Array) -> None:
    first, second = linear_views(gaussian, 3, seed=0), linear_views(gaussian.copy(), 3, seed=0)
    assert torch.equal(first.standard, second.standard)
    assert (first.standard.gather(0, first.standard.abs().argmax(0, keepdim=True)) > 0).all()


def test_constant_features_give_finite_views() -> None:
    views = linear_views(np.ones((10, 3), dtype=np.float32), 3, seed=0)
    assert all(matrix.isfinite().all() for matrix in (views.standard, views.white))


def test_neighbours_are_exact_in_each_view(gaussian: Array) -> None:
    views = linear_views(gaussian, 6, seed=0)
    neighbours = view_neighbours(gaussian, [views], 4, seed=0)
    for found, view in zip(neighbours, views.unit(torch.from_numpy(gaussian)), strict=True):
        similarity = (view @ view.T).numpy()
        np.fill_diagonal(similarity, -2)
        assert np.array_equal(np.sort(found, axis=1), np.sort(np.argsort(-similarity, axis=1)[:, :4], axis=1))


def test_neighbours_in_chunks_exclude_the_row_itself(gaussian: Array) -> None:
    views = linear_views(gaussian, 6, seed=0)
    neighbours = view_neighbours(gaussian, [views], 3, seed=0, chunk_rows=40)
    assert neighbours.shape == (2, 300, 3)
    assert (neighbours != np.arange(300)[:, None]).all()
    assert len(np.unique(neighbours)) > 200


def test_smoothing_brings_the_rows_of_a_group_together(groups: tuple[Array, Array]) -> None:
    X, y = groups
    _, views = smoothed_views(X, (1, 8), seed=0)
    for one_step, many_steps in views:
        same = torch.from_numpy(y[:, None] == y)
        assert (many_steps @ many_steps.T)[same].mean() > (one_step @ one_step.T)[same].mean()


@pytest.mark.parametrize("n", [2, 5, 19, 30])
def test_views_are_those_of_the_covariance_with_few_and_many_rows(n: int) -> None:
    X = np.random.default_rng(0).standard_normal((n, 20)).astype(np.float32)
    views, p = linear_views(X, 12, seed=0), min(12, max(n // 2, 2))
    assert not views.standard[:, p:].any()
    U = F.normalize(torch.from_numpy(X).double(), dim=1)
    U = U - U.mean(0)
    C = U.T @ U / n
    scale = 1 / (C.diagonal() + C.diagonal().mean()).sqrt()
    for matrix, scaling in ((views.standard, scale), (views.white, torch.ones(20))):
        w, V = np.linalg.eigh((C * scaling[:, None] * scaling).numpy())
        w, V = np.maximum(w[::-1][:p], 0), V[:, ::-1][:, :p]
        if matrix is views.white:
            V = V / np.sqrt(w + w.mean())
        expected = U @ (scaling[:, None] * torch.from_numpy(V.copy()))
        expected *= (p / expected.square().sum(1).mean()).sqrt()
        np.testing.assert_allclose((U.float() @ matrix[:, :p]).abs(), expected.abs(), atol=1e-4)
        assert (matrix.square().sum(0) > 1e-6).sum() == min(p, n - 1)

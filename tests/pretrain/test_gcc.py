import math

import numpy as np
import torch

from cgmcr2.pretrain.gcc import GraphContrastiveClustering, cluster_contrast, degrees, graph_contrast
from cgmcr2.pretrain.method import Batch


def unit_rows(*shape, seed=0):
    return torch.nn.functional.normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)), dim=1)


def test_graph_contrast_equals_brute_force():
    Z, views, neighbours, weights = unit_rows(4, 3), unit_rows(4, 3, seed=1), unit_rows(4, 3, seed=2), torch.rand(4)
    total = 0.0
    for i in range(4):
        e = [[math.exp(float(Z[i] @ other) / 0.1) for other in group] for group in (views, neighbours)]
        total -= math.log((e[0][i] + float(weights[i]) * e[1][i]) / (sum(e[0]) + sum(e[1]))) / 4
    assert math.isclose(graph_contrast(Z, [views, neighbours], weights, 0.1).item(), total, rel_tol=1e-4)


def test_graph_contrast_without_neighbours_is_info_nce():
    Z, views = unit_rows(4, 3), unit_rows(4, 3, seed=1)
    expected = torch.nn.functional.cross_entropy(Z @ views.T / 0.1, torch.arange(4))
    assert torch.isclose(graph_contrast(Z, [views], None, 0.1), expected)


def test_cluster_contrast_equals_brute_force():
    P, Q = torch.rand(5, 3), torch.rand(5, 3)
    cosine = [[float(p @ q / p.norm() / q.norm()) for q in Q.T] for p in P.T]
    expected = sum(math.log(sum(map(math.exp, row))) - row[i] for i, row in enumerate(cosine)) / 3
    assert math.isclose(cluster_contrast(P, Q).item(), expected, rel_tol=1e-5)


def test_degrees_count_both_directions_once():
    nearest = torch.tensor([[1, 2], [0, 3], [1, 0], [1, 2]])
    edges = {frozenset((i, int(j))) for i, row in enumerate(nearest) for j in row}
    assert degrees(nearest).tolist() == [sum(i in edge for edge in edges) for i in range(4)]


def test_neighbours_follow_the_pretext_epochs_and_are_the_nearest_of_the_moving_average():
    model = GraphContrastiveClustering(torch.nn.Flatten(), 12, 6, dim=4, neighbours=2, pretext_epochs=2, every=1)
    halves = [np.arange(3), np.arange(3, 6)]
    for step in range(4):
        batch = Batch(halves[step % 2], step)
        assert model.companions(batch) == []
        model.loss([torch.randn(3, 3, 2, 2), torch.randn(3, 3, 2, 2)], batch)
        model.after_step(batch)
    (companions,) = model.companions(batch)
    U = torch.nn.functional.normalize(model.bank, dim=1)
    similarity = (U @ U.T).fill_diagonal_(-torch.inf)
    for row, companion in zip(batch.rows, companions, strict=True):
        assert companion in similarity[row].topk(2).indices
    loss = model.loss([torch.randn(3, 3, 2, 2) for _ in range(3)], batch)
    assert set(loss.terms) == {"contrast", "cluster", "balance"}


def test_neighbours_are_searched_after_the_first_epoch_without_pretext_epochs():
    model = GraphContrastiveClustering(torch.nn.Flatten(), 12, 6, dim=4, neighbours=2, pretext_epochs=0, every=5)
    batch = Batch(np.arange(6), 0)
    assert model.companions(batch) == []
    model.loss([torch.randn(6, 3, 2, 2), torch.randn(6, 3, 2, 2)], batch)
    model.after_step(batch)
    assert len(model.companions(batch)) == 1

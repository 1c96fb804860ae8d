from __future__ import annotations

import numpy as np

from cgmcr2.training.neighbour_graph import NeighbourGraph


def test_the_graph_of_a_batch_is_the_whole_graph_restricted() -> None:
    rng = np.random.default_rng(0)
    neighbours = np.stack([rng.choice(300, 6, replace=False) for _ in range(300)])
    whole = np.zeros((300, 300), dtype=np.float32)
    np.add.at(whole, (np.repeat(np.arange(300), 6), neighbours.ravel()), 0.5)
    whole += whole.T
    rows = rng.permutation(300)[:80]
    graph = NeighbourGraph(neighbours)
    for _ in range(2):  # the second call must not see the positions of the first
        assert np.array_equal(graph.edges(rows).dense().numpy(), whole[np.ix_(rows, rows)])

from __future__ import annotations

import numpy as np
import torch

from cgmcr2.model import Network, NetworkConfig
from cgmcr2.training.empty_clusters import fill_empty_clusters

X = np.random.default_rng(0).normal(size=(600, 6)).astype(np.float32)


def network_without_the_last_cluster() -> Network:
    """An untrained network whose second head uses clusters 0, 1 and 2 of 4."""
    torch.manual_seed(0)
    network = Network(NetworkConfig(6, 4, hidden_dim=8, embedding_dim=2, n_heads=2)).eval()
    with torch.no_grad():
        network.cluster_out.bias[1, 0] -= network(torch.from_numpy(X))[1][1].mean(0)
        network.cluster_out.bias[1, 0, 3] -= 5
    return network


def labels(network: Network) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    with torch.no_grad():
        return np.asarray(network(torch.from_numpy(X))[1][1].argmax(1).numpy())


def test_an_empty_cluster_gets_half_of_its_rows() -> None:
    network = network_without_the_last_cluster()
    before = labels(network)
    assert set(before) == {0, 1, 2}
    partition = np.where(np.arange(len(X)) < 21, 3, before)
    fill_empty_clusters(network, 1, X, partition)
    after = labels(network)
    assert (after[:21] == 3).sum() == 11
    assert np.array_equal(after[after != 3], before[after != 3])


def test_a_cluster_that_the_partition_does_not_have_stays_empty() -> None:
    network = network_without_the_last_cluster()
    bias = network.cluster_out.bias.clone()
    fill_empty_clusters(network, 1, X, labels(network))
    assert torch.equal(network.cluster_out.bias, bias)

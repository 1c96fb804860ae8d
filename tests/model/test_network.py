"""The network against separately computed heads, its size, and its options."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from cgmcr2.model import Network, NetworkConfig


def small(**changes: object) -> Network:
    torch.manual_seed(0)
    config = {"in_dim": 6, "n_clusters": 3, "hidden_dim": 8, "embedding_dim": 4, **changes}
    return Network(NetworkConfig(**config))  # type: ignore[arg-type]


@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize("n_heads", [1, 3])
def test_stacked_heads_equal_separate_heads(depth: int, n_heads: int) -> None:
    network = small(depth=depth, n_heads=n_heads).eval()
    X = torch.randn(5, 6)
    Z, logits = network(X)
    trunk = nn.functional.relu(network.batch_norm(network.pre_feature(X)))
    for head in range(1 + n_heads):
        H = trunk @ network.first_hidden.weight.view(1 + n_heads, 8, 8)[head].T
        H = (H + network.first_hidden.bias.view(1 + n_heads, 8)[head]).relu()
        for layer in network.hidden:
            H = (H @ layer.weight[head].T + layer.bias[head, 0]).relu()
        if head == 0:
            torch.testing.assert_close(Z, network.feature_out(H))
        else:
            out = network.cluster_out
            torch.testing.assert_close(logits[head - 1], H @ out.weight[head - 1].T + out.bias[head - 1, 0])


def test_number_of_parameters_equals_the_papers() -> None:
    with torch.device("meta"):  # no memory needed
        network = small(in_dim=768, hidden_dim=4096, embedding_dim=128, n_clusters=10)
    linear = 768 * 4096 + 4096 + 2 * (4096 * 4096 + 4096) + 4096 * 128 + 128 + 4096 * 10 + 10
    assert sum(p.numel() for p in network.parameters()) == linear + 2 * 4096  # BatchNorm's


def test_embedding_has_unit_rows() -> None:
    Z, _ = small().eval().embed(torch.randn(7, 6))
    torch.testing.assert_close(Z.norm(dim=1), torch.ones(7))


def test_initial_embedding_is_the_projection() -> None:
    network = small(projection=5)
    mean, matrix = torch.randn(6), torch.randn(6, 5)
    network.set_projection(mean, matrix)
    X = torch.randn(7, 6)
    torch.testing.assert_close(network(X)[0], ((nn.functional.normalize(X, dim=1) - mean) @ matrix)[:, :4])


def test_projection_narrower_than_the_embedding_leaves_zeros() -> None:
    Z = small(projection=2)(torch.randn(5, 6))[0]
    assert Z[:, 2:].abs().max() == 0
    assert Z[:, :2].abs().min() > 0


def test_centroids_replace_the_cluster_heads() -> None:
    network = small(centroids=True).eval()
    centroids = torch.randn(3, 4)
    network.set_centroids(10 * centroids)
    Z, logits = network(torch.randn(7, 6))
    assert logits.shape == (1, 7, 3)
    torch.testing.assert_close(logits[0], nn.functional.cosine_similarity(Z[:, None], centroids[None], dim=-1))


def test_invalid_arguments() -> None:
    with pytest.raises(ValueError, match="hidden_dim must be at least 1, but is 0"):
        small(hidden_dim=0)
    with pytest.raises(ValueError, match="no projection"):
        small().set_projection(torch.zeros(6), torch.eye(6))
    with pytest.raises(ValueError, match="has cluster heads"):
        small().set_centroids(torch.eye(3, 4))

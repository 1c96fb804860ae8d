"""The shared loop: what repeats, what every row sees, and what is said when it diverges."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from cgmcr2.baselines.deep import seeded, train


def test_every_row_is_seen_once_an_epoch_in_batches_of_at_least_two() -> None:
    network, seen = nn.Linear(1, 1), []

    def loss(rows: Tensor) -> Tensor:
        seen.append(rows)
        return network.weight.sum()

    history = train(network, loss, 10, epochs=2, batch_size=3, lr=0.0)
    assert len(history) == 2
    assert sorted(len(rows) for rows in seen) == [2] * 4 + [3] * 4
    assert sorted(torch.cat(seen[:4]).tolist()) == sorted(torch.cat(seen[4:]).tolist()) == list(range(10))
    assert torch.cat(seen[:4]).tolist() != torch.cat(seen[4:]).tolist()


def test_epochs_are_added_until_there_are_enough_steps() -> None:
    network = nn.Linear(1, 1)
    settings = {"batch_size": 2, "lr": 0.0, "min_steps": 7}
    assert len(train(network, lambda rows: network.weight.sum(), 4, epochs=1, **settings)) == 4
    assert train(network, lambda rows: network.weight.sum(), 4, epochs=0, **settings) == []


def test_the_loss_goes_down_and_only_what_asks_for_a_gradient_moves() -> None:
    network = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    network[0].requires_grad_(False)
    X, before = torch.randn(20, 3, generator=torch.Generator().manual_seed(0)), network[0].weight.clone()
    history = train(network, lambda rows: network(X[rows]).square().mean(), 20, epochs=30, batch_size=8, lr=0.05)
    assert history[-1] < 0.2 * history[0]
    assert torch.equal(network[0].weight, before)


def test_a_loss_that_is_not_finite_is_one_sentence() -> None:
    network = nn.Linear(1, 1)
    with pytest.raises(FloatingPointError, match="The training of x diverged in step 0"):
        train(network, lambda rows: network.weight.sum() * torch.nan, 4, epochs=1, batch_size=2, lr=0.1, title="x")


def test_a_seed_leaves_the_generator_outside_alone() -> None:
    torch.manual_seed(5)
    want = torch.rand(3)
    torch.manual_seed(5)
    with seeded(0):
        torch.rand(7)
    assert torch.equal(torch.rand(3), want)

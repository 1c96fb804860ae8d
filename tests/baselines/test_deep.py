"""The training loop (batches, number of steps, gradients, divergence, seeds) and its helpers."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor, nn

from cgmcr2.baselines.deep import NeighbourSampler, TrainingOptions, ema_teacher, has_converged, seeded, train


def test_each_epoch_visits_every_row_once_in_batches_of_at_least_two() -> None:
    network, batches = nn.Linear(1, 1), []

    def loss(rows: Tensor) -> Tensor:
        batches.append(rows)
        return network.weight.sum()

    assert len(train(network, loss, 10, TrainingOptions(max_steps=8, batch_size=3, lr=0.0))) == 1
    assert sorted(len(rows) for rows in batches) == [2] * 4 + [3] * 4
    assert sorted(torch.cat(batches[:4]).tolist()) == sorted(torch.cat(batches[4:]).tolist()) == list(range(10))
    assert torch.cat(batches[:4]).tolist() != torch.cat(batches[4:]).tolist()


@pytest.mark.parametrize("n", [4, 400])
def test_the_number_of_steps_does_not_depend_on_the_number_of_rows(n: int) -> None:
    network, steps = nn.Linear(1, 1), []

    def loss(rows: Tensor) -> Tensor:
        steps.append(len(rows))
        return network.weight.sum() - len(steps)  # improves with every step

    options = TrainingOptions(max_steps=250, batch_size=2, lr=0.0)
    history = train(network, loss, n, options)
    assert len(steps) == 250
    weight = network.weight.item()
    assert history == pytest.approx([weight - 50.5, weight - 150.5, weight - 225.5])
    assert train(network, loss, n, dataclasses.replace(options, max_steps=0)) == []


def test_training_stops_when_the_loss_no_longer_improves() -> None:
    network, steps = nn.Linear(1, 1), []

    def loss(rows: Tensor) -> Tensor:
        steps.append(len(rows))
        return 0 * network.weight.sum() + max(0, 1500 - len(steps))  # constant from step 1,500 on

    options = TrainingOptions(max_steps=3000, batch_size=2, lr=0.0)
    train(network, loss, 4, options)
    assert len(steps) == 2500  # the last 500 steps and the 500 before them are equal
    steps.clear()
    train(network, loss, 4, dataclasses.replace(options, tolerance=None))
    assert len(steps) == 3000


def test_converged_by_hand() -> None:
    assert not has_converged([9.0, 5, 5], 1e-3, patience=2)  # too short
    assert not has_converged([10.0, 4, 4, 4, 3.9, 3.9], 0.01, patience=2)  # 0.1 of 6.1
    assert has_converged([10.0, 4, 4, 4, 3.99, 3.99], 0.01, patience=2)  # 0.01 of 6.01
    assert has_converged([10.0, 4, 4, 4, 5, 5], 0.01, patience=2)  # the loss rises


def test_loss_decreases_and_frozen_parameters_stay() -> None:
    network = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    network[0].requires_grad_(False)
    X, before = torch.randn(20, 3, generator=torch.Generator().manual_seed(0)), network[0].weight.clone()
    options = TrainingOptions(max_steps=250, batch_size=8, lr=0.02)
    history = train(network, lambda rows: network(X[rows]).square().mean(), 20, options)
    assert history[-1] < 0.2 * history[0]
    assert torch.equal(network[0].weight, before)


def test_non_finite_loss_raises() -> None:
    network = nn.Linear(1, 1)
    options = TrainingOptions(max_steps=2, batch_size=2, lr=0.1, desc="x")
    with pytest.raises(FloatingPointError, match=r"x diverged at step 0 \(loss nan\)"):
        train(network, lambda rows: network.weight.sum() * torch.nan, 4, options)


def test_seeded_restores_the_global_generator() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    with seeded(0):
        torch.rand(7)
    assert torch.equal(torch.rand(3), expected)


def test_sampled_neighbours_are_among_the_nearest() -> None:
    X = nn.functional.normalize(torch.randn(30, 4, generator=torch.Generator().manual_seed(0)), dim=1)
    nearest = (X @ X.T).fill_diagonal_(-torch.inf).topk(5).indices
    rows = torch.arange(30).repeat(20)
    sampled = NeighbourSampler(X, 5)(rows)
    assert (sampled[:, None] == nearest[rows]).any(1).all()
    assert len(set(sampled[rows == 0].tolist())) > 1


def test_teacher_averages_parameters_and_copies_buffers() -> None:
    student = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    teacher = ema_teacher(student, 0.9)
    average = student[0].weight.detach().clone()
    for _ in range(3):
        with torch.no_grad():
            student[0].weight += 1
            student(torch.randn(8, 3))  # updates BatchNorm's running statistics
        average = 0.9 * average + 0.1 * student[0].weight.detach()
        teacher.update_parameters(student)
    torch.testing.assert_close(teacher.module[0].weight, average)
    assert torch.equal(teacher.module[1].running_mean, student[1].running_mean)
    assert not any(parameter.requires_grad for parameter in teacher.parameters())

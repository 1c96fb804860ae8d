from __future__ import annotations

import pytest
import torch

from cgmcr2.training.monitor import Monitor


def test_balance_is_the_effective_number_of_clusters() -> None:
    monitor = Monitor(n_heads=2, n_clusters=4, device=torch.device("cpu"))
    monitor.shares = torch.tensor([[0.25, 0.25, 0.25, 0.25], [1.0, 0.0, 0.0, 0.0]])
    assert monitor.balance().tolist() == pytest.approx([1.0, 0.25])
    assert monitor.live().tolist() == [4, 1]


def test_the_head_of_lowest_running_loss_is_best() -> None:
    monitor = Monitor(n_heads=2, n_clusters=2, device=torch.device("cpu"))
    Pi, finite = torch.full((2, 3, 2), 0.5), torch.tensor(True)
    for step in range(30):
        terms = torch.stack([torch.tensor([1.0, 0.5 if step > 5 else 2.0])] * 6)
        monitor.add({"step": step}, terms, Pi, finite, first_of_stage=step == 0)
        assert monitor.best_head() == int(step >= 27)  # where 0.5 + 1.5 * 0.95 ** (step - 5) falls below 1


def test_non_finite_steps_are_counted_and_leave_the_figures_alone() -> None:
    monitor = Monitor(n_heads=1, n_clusters=2, device=torch.device("cpu"))
    Pi = torch.full((1, 3, 2), torch.nan)
    monitor.add({"step": 0}, torch.full((6, 1), torch.nan), Pi, torch.tensor(False), first_of_stage=True)
    assert monitor.skipped == 1
    assert monitor.shares.tolist() == [[0.5, 0.5]]
    (record,) = monitor.flush()
    assert (record["loss"], record["finite"]) == (None, False)
    assert monitor.flush() == []

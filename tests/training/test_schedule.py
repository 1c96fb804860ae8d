from __future__ import annotations

import pytest
import torch

from cgmcr2.training.schedule import Schedule
from cgmcr2.training.settings import Settings


@pytest.mark.parametrize(("n", "batch", "steps"), [(100, 50, 2), (101, 50, 3), (3, 2, 1), (2, 512, 1), (1000, 999, 2)])
def test_steps_per_epoch_cover_all_rows_in_batches_of_two_or_more(n: int, batch: int, steps: int) -> None:
    assert Schedule(Settings(batch_size=batch), n).steps_per_epoch == steps


def test_rate_is_constant_then_a_cosine() -> None:
    schedule = Schedule(Settings(batch_size=10, warmup_epochs=2, finetune_epochs=4, lr=0.1), 100)
    rates = [schedule.lr(step) for step in range(schedule.total_steps)]
    assert rates[:20] == [0.1] * 20
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.1)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=40)
    for rate in rates[20:]:
        assert rate == pytest.approx(cosine.get_last_lr()[0], abs=1e-12)
        optimizer.step()
        cosine.step()


def test_the_released_rate_is_that_of_the_released_loop() -> None:
    """Its loop: the ramp overwrites the rate at the start of an epoch, torch's chained cosine changes it at the end."""
    schedule = Schedule(
        Settings(batch_size=10, warmup_epochs=10, finetune_epochs=10, lr=1e-4, schedule="released"), 100
    )
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1e-4)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20, eta_min=0)
    for epoch in range(20):
        if epoch < 10:
            optimizer.param_groups[0]["lr"] = 1e-4 * min(1.0, (epoch + 1) / 10)
        assert schedule.lr(epoch * schedule.steps_per_epoch) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9)
        optimizer.step()
        cosine.step()
    assert schedule.lr(10 * schedule.steps_per_epoch) / 1e-4 == pytest.approx(0.865, abs=0.01)


def test_the_released_schedule_switches_one_epoch_late_and_drops_the_last_batch() -> None:
    schedule = Schedule(Settings(batch_size=30, warmup_epochs=10, finetune_epochs=10, schedule="released"), 100)
    assert schedule.steps_per_epoch == 3
    assert [schedule.stage(epoch * 3) for epoch in (9, 10, 11)] == ["warm-up", "warm-up", "fine-tuning"]


def test_without_warm_up_every_step_is_fine_tuning() -> None:
    schedule = Schedule(Settings(batch_size=10, warmup_epochs=0, finetune_epochs=1), 20)
    assert [schedule.stage(step) for step in range(schedule.total_steps)] == ["fine-tuning"] * 2

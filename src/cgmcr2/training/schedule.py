"""Stage and learning rate as functions of the step only, so that a resumed run continues them exactly."""

from __future__ import annotations

import dataclasses
import math

from .batches import steps_per_epoch
from .settings import Settings


@dataclasses.dataclass(frozen=True)
class Schedule:
    """The stages and learning rates of training on n rows.

    >>> schedule = Schedule(Settings(batch_size=50, warmup_epochs=1, finetune_epochs=2, lr=1.0), n=100)
    >>> [schedule.stage(step) for step in range(schedule.total_steps)]
    ['warm-up', 'warm-up', 'fine-tuning', 'fine-tuning', 'fine-tuning', 'fine-tuning']
    >>> [round(schedule.lr(step), 3) for step in range(schedule.total_steps)]
    [1.0, 1.0, 1.0, 0.854, 0.5, 0.146]
    """

    settings: Settings
    n: int

    @property
    def steps_per_epoch(self) -> int:
        """Batches per epoch, of nearly equal size: at most the batch size, at least two rows."""
        if self.settings.schedule == "released":  # the released code drops the last, partial batch
            return max(1, self.n // self.settings.batch_size)
        return steps_per_epoch(self.n, self.settings.batch_size)

    @property
    def warmup_steps(self) -> int:
        warmup = self.settings.warmup_epochs
        if self.settings.schedule == "released" and self.settings.finetune_epochs > 0:
            warmup += 1  # `epoch <= w_epo` switches one epoch late
        return min(self.total_steps, round(warmup * self.steps_per_epoch))

    @property
    def total_steps(self) -> int:
        return max(1, round((self.settings.warmup_epochs + self.settings.finetune_epochs) * self.steps_per_epoch))

    def stage(self, step: int) -> str:
        return "warm-up" if step < self.warmup_steps else "fine-tuning"

    def lr(self, step: int) -> float:
        """Learning rate: constant, then cosine annealing to zero; or that of the released code."""
        base = self.settings.lr
        if self.settings.schedule == "released":
            return base * self._released_factor(step // self.steps_per_epoch)
        if step < self.warmup_steps:
            return base
        progress = (step - self.warmup_steps) / max(1, self.total_steps - self.warmup_steps)
        return base * 0.5 * (1 + math.cos(math.pi * progress))

    def _released_factor(self, epoch: int) -> float:
        """A linear ramp over the warm-up, then torch's recursive form of cosine annealing.

        That form multiplies the previous rate by (1 + cos(pi t/T)) / (1 + cos(pi (t-1)/T)).
        """
        ramp, total = round(self.settings.warmup_epochs), self.settings.warmup_epochs + self.settings.finetune_epochs
        if epoch < ramp:
            return (epoch + 1) / ramp
        factor = 1.0
        for t in range(max(ramp, 1), epoch + 1):
            factor *= (1 + math.cos(math.pi * t / total)) / (1 + math.cos(math.pi * (t - 1) / total))
        return factor

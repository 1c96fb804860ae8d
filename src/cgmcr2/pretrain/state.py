"""Everything that a step of pretraining changes, and that a checkpoint holds."""

from __future__ import annotations

import dataclasses

import torch

from cgmcr2._optim import SGD, Adam
from cgmcr2.encoders.registry import PRETRAINED_CHECKPOINT
from cgmcr2.training.state_file import StateFiles, load_optimizer, optimizer_tensors

from .method import Method
from .settings import Settings

CHECKPOINT = PRETRAINED_CHECKPOINT
PROGRESS = ("step", "spread", "skipped", "metrics")  # fields of the state that are not tensors


@dataclasses.dataclass
class PretrainState:
    """Method, optimizer and running figures after ``step`` steps."""

    model: Method
    optimizer: torch.optim.Optimizer
    step: int = 0
    spread: float = 1.0  # running mean of the spread of the embedding
    skipped: int = 0  # consecutive steps until now that were not finite
    metrics: str = ""  # digest of the records of all steps in metrics.jsonl

    @classmethod
    def create(cls, model: Method, settings: Settings) -> PretrainState:
        """The state before the first step."""
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        if settings.optimizer == "sgd":
            return cls(model, SGD(trained, lr=settings.lr, momentum=0.9, weight_decay=settings.weight_decay))
        return cls(model, Adam(trained, lr=settings.lr, weight_decay=settings.weight_decay))

    def save(self, files: StateFiles) -> None:
        """Write a checkpoint."""
        tensors = {f"modules.{name}": tensor for name, tensor in self.model.state_dict().items()}
        tensors |= optimizer_tensors(self.optimizer, self.model)
        files.write(CHECKPOINT, tensors, {name: getattr(self, name) for name in PROGRESS})

    def restore(self, files: StateFiles) -> None:
        """Restore the checkpoint, if there is one."""
        tensors, progress = files.read(CHECKPOINT)
        if not progress:
            return
        parts = {
            part: {name[len(part) :]: tensor for name, tensor in tensors.items() if name.startswith(part)}
            for part in ("modules.", "optimizer.")
        }
        with files.reading(CHECKPOINT):
            self.model.load_state_dict(parts["modules."])
            load_optimizer(self.optimizer, self.model, parts["optimizer."])
            for name in PROGRESS:
                setattr(self, name, progress[name])

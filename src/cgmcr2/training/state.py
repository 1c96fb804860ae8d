"""Everything that a training step changes, and that a checkpoint holds."""

from __future__ import annotations

import dataclasses

import torch
from torch import nn

from cgmcr2._optim import Adam
from cgmcr2.model import Network, NetworkConfig
from cgmcr2.objectives import CgMCR2Objective, ReleasedObjective

from .monitor import Monitor
from .precompute import Precomputed
from .settings import Settings


@dataclasses.dataclass
class TrainingState:
    """Network, objective, optimizer and running statistics after ``step`` steps."""

    network: Network
    objective: CgMCR2Objective | ReleasedObjective
    optimizer: torch.optim.Adam
    monitor: Monitor
    step: int = 0
    metrics_digest: str = ""  # of the records of all steps in metrics.jsonl

    @classmethod
    def create(
        cls,
        settings: Settings,
        spaces: tuple[int, ...],
        k: int,
        s: int,
        inputs: Precomputed,
        seed: int,
        device: torch.device,
    ) -> TrainingState:
        """The state before the first step; ``spaces`` are the widths of the feature spaces."""
        with torch.random.fork_rng(devices=[]):  # leave the caller's random state alone
            torch.manual_seed(seed)
            network = Network(_network_config(settings, spaces, k))
        if settings.projection and inputs.mean is not None and inputs.matrix is not None:
            network.set_projection(inputs.mean, inputs.matrix)
        network.to(device).train()
        objective = _objective(settings, s).to(device).train()
        optimizer = Adam(
            [*network.parameters(), *objective.parameters()],
            lr=settings.lr,
            weight_decay=settings.weight_decay,
            fused=device.type != "mps",
        )
        return cls(network, objective, optimizer, Monitor(settings.n_heads, k, device))

    def modules(self) -> nn.ModuleDict:
        """The trained modules; a checkpoint holds their tensors and the optimizer's."""
        return nn.ModuleDict({"network": self.network, "objective": self.objective})


def _network_config(settings: Settings, spaces: tuple[int, ...], k: int) -> NetworkConfig:
    D = sum(spaces)
    return NetworkConfig(
        in_dim=D,
        n_clusters=k,
        hidden_dim=settings.hidden_dim,
        embedding_dim=settings.embedding_dim,
        depth=settings.depth,
        n_heads=settings.n_heads,
        projection=min(settings.projection, D) or None,
        centroids=settings.cluster_module != "head",
        bn_momentum=settings.bn_momentum,
        spaces=spaces if len(spaces) > 1 else (),
    )


def _objective(settings: Settings, s: int) -> CgMCR2Objective | ReleasedObjective:
    if settings.objective == "released":
        return ReleasedObjective(settings.eps, settings.gamma, s)
    return CgMCR2Objective(settings.eps, settings.gamma, s, affinity=settings.affinity, penalty=settings.penalty)

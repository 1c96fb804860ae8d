"""Every setting of a training run."""

from __future__ import annotations

import dataclasses
import difflib
import math
import typing
from collections.abc import Iterable
from typing import Any, Literal, get_args, get_origin

ObjectiveName = Literal["cgmcr2", "released"]
Penalty = Literal["squared", "norm"]
AffinityName = Literal["cosine_topk", "gaussian", "doubly_stochastic", "cosine"]
Membership = Literal["gumbel", "softmax"]
ClusterModuleName = Literal["head", "k-means", "spectral", "ensc"]
GraphName = Literal["batch", "whole"]
ScheduleName = Literal["constant-cosine", "released"]


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of a training run. The defaults are the paper's for CIFAR-10 (Table A.3)."""

    # Network (paper, Table A.2)
    hidden_dim: int = 4096  # width of the hidden layers
    embedding_dim: int = 128  # dimension d of the embedding Z
    depth: int = 1  # hidden layers of each head
    n_heads: int = 1  # cluster heads on one trunk; the head of lowest running loss is used
    projection: int = 0  # dimensions of a fixed linear projection of the input; 0 disables it
    bn_momentum: float = 0.1  # weight of the newest batch in BatchNorm's running statistics

    # Objective
    objective: ObjectiveName = "cgmcr2"  # the paper's formulas, or those of the released code
    eps: float = 0.5  # distortion of the coding rates
    gamma: float = 70.0  # weight of the orthogonality penalty of the cut
    penalty: Penalty = "squared"  # gamma/2 ||.||_F^2 as in the paper, or gamma ||.||_F / k as in the released code
    affinity: AffinityName = "cosine_topk"  # affinity of a batch
    s: int = 10  # entries kept in each row of the affinity
    membership: Membership = "gumbel"  # Gumbel-softmax or plain softmax of the cluster logits
    temperature: float = 1.0  # of the (Gumbel-)softmax of the memberships
    cluster_module: ClusterModuleName = "head"  # what assigns clusters in a step; all but "head" are ablations
    cut_in_finetuning: bool = True  # the paper's ablation switches the cut off in fine-tuning
    graph: GraphName = "batch"  # affinity of each batch's Z, or neighbour graph of the whole data set
    consensus_weight: float = 0.0  # initial weight of the cross-entropy to the consensus partition; 0 disables it

    # Batches and optimisation
    sample: int = 0  # largest number of training rows, drawn at random; 0 uses all rows
    batch_size: int = 512  # rows per step
    neighbours: int = 0  # half of each batch are random ones of this many nearest neighbours; 0 disables it
    warmup_epochs: float = 10  # T1: epochs of -R + Lncut
    finetune_epochs: float = 10  # T2: epochs of -R + Rc + Lncut
    lr: float = 1e-4  # learning rate of Adam
    weight_decay: float = 5e-4  # of Adam
    schedule: ScheduleName = "constant-cosine"  # learning rate: the paper's, or that of the released code

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            check_type(field.name, getattr(self, field.name))
        for name in ("hidden_dim", "embedding_dim", "depth", "n_heads", "s"):
            self._require(name, getattr(self, name) >= 1, "at least 1")
        for name in ("eps", "lr", "temperature"):
            self._require(name, 0 < getattr(self, name) < math.inf, "a number above 0")
        for name in ("gamma", "weight_decay", "warmup_epochs", "finetune_epochs", "consensus_weight"):
            self._require(name, 0 <= getattr(self, name) < math.inf, "a number of at least 0")
        for name in ("sample", "neighbours", "projection"):
            self._require(name, getattr(self, name) >= 0, "at least 0")
        self._require("batch_size", self.batch_size >= 2, "at least 2, because BatchNorm needs more than one row")
        self._require("bn_momentum", 0 <= self.bn_momentum < 1, "at least 0 and below 1")
        if self.graph == "whole" and not self.neighbours:
            raise ValueError("graph='whole' needs neighbours, the number of edges of each row; give at least 1.")
        if self.cluster_module != "head" and (self.n_heads > 1 or self.consensus_weight):
            raise ValueError(
                f"cluster_module={self.cluster_module!r} has no cluster heads, but n_heads is {self.n_heads} and "
                f"consensus_weight {self.consensus_weight:g}; leave them out, or give 1 and 0."
            )
        if self.warmup_epochs + self.finetune_epochs == 0:
            raise ValueError("warmup_epochs and finetune_epochs are both 0; at least one must be above 0.")

    def _require(self, name: str, holds: bool, needed: str) -> None:
        if not holds:
            raise ValueError(f"{name} must be {needed}, but is {getattr(self, name)!r}.")


_TYPES: dict[str, Any] = typing.get_type_hints(Settings)


def setting_names() -> tuple[str, ...]:
    """The names of all settings."""
    return tuple(_TYPES)


def choices(name: str) -> tuple[str, ...]:
    """The values that a setting may take, or an empty tuple if it is a number or a switch.

    >>> choices("graph")
    ('batch', 'whole')
    """
    return get_args(_TYPES[name]) if get_origin(_TYPES[name]) is Literal else ()


def check_names(names: Iterable[str]) -> None:
    """Raise ``ValueError`` for a name that is not a setting, with the most similar one that is."""
    for name in names:
        if name not in _TYPES:
            similar = difflib.get_close_matches(name, _TYPES, n=1)
            hint = f"did you mean {similar[0]!r}?" if similar else f"choose from {', '.join(_TYPES)}."
            raise ValueError(f"There is no setting named {name!r}; {hint}")


def convert(name: str, value: Any) -> Any:
    """``value`` as the type of the setting, checked: NumPy numbers become Python's, 64.0 becomes 64 for an integer.

    >>> convert("hidden_dim", 64.0)
    64
    """
    value = getattr(value, "item", lambda: value)()
    check_type(name, value)
    return int(value) if _TYPES[name] is int else value


def check_type(name: str, value: Any) -> None:
    """Raise ``ValueError`` if ``value`` is not of the type of the setting, or not one of its choices."""
    kind = _TYPES[name]
    if allowed := choices(name):
        if value not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, but is {value!r}.")
    elif kind is bool:
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be true or false, but is {value!r}.")
    elif isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{name} must be a number, but is {value!r}.")
    elif kind is int and (math.isnan(value) or value != int(value)):
        raise ValueError(f"{name} must be an integer, but is {value!r}.")

"""Every setting of a training, and the three presets that fill them in: ``paper``, ``reference``, ``auto``."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal, get_args

Preset = Literal["auto", "paper", "reference"]
PRESETS: tuple[Preset, ...] = get_args(Preset)


@dataclasses.dataclass(frozen=True)
class Settings:
    """A complete training. The defaults are the paper's for CIFAR-10 (Table A.3) and its formulas."""

    # Network (paper, Table A.2)
    hidden_dim: int = 4096
    embedding_dim: int = 128  # d
    depth: int = 1  # hidden layers in each head
    n_heads: int = 1  # cluster heads on one trunk; the one of lowest running loss is used
    projection: int = 0  # directions that the features are mapped to first, where Z starts; 0: features as they are
    bn_momentum: float = 0.1

    # Objective
    objective: Literal["cgmcr2", "reference"] = "cgmcr2"  # DESIGN: the paper's formulas, or the released code's
    eps: float = 0.5
    gamma: float = 70.0
    penalty: Literal["squared", "norm"] = "squared"  # gamma/2 ||.||_F^2 as printed, or gamma ||.||_F / k as released
    affinity: Literal["cosine_topk", "gaussian", "doubly_stochastic", "cosine"] = "cosine_topk"
    s: int = 10  # entries kept in each row of the affinity
    membership: Literal["gumbel", "softmax"] = "gumbel"
    temperature: float = 1.0
    cluster_module: Literal["head", "k-means", "spectral", "ensc"] = "head"  # what finds the clusters in each step
    cut_in_finetuning: bool = True  # off in one row of the paper's ablation
    graph: Literal["batch", "whole"] = "batch"  # A from the batch's Z, or the neighbours in the whole data set
    guide: float = 0.0  # weight at first, falling over the warm-up, of a consensus partition that the heads are led by

    # Batches and optimisation
    sample: int = 0  # rows, drawn at random, that training is given of a larger data set; 0: all of them
    batch_size: int = 512
    neighbours: int = 0  # batches of points and one of their so many nearest neighbours; 0: independent points
    ema: float = 0.0  # the network used in the end is a running mean of the weights with this memory; 0: the last one
    warmup_epochs: float = 10
    finetune_epochs: float = 10
    lr: float = 1e-4
    weight_decay: float = 5e-4
    schedule: Literal["constant-cosine", "reference"] = "constant-cosine"
    act_on_collapse: bool = False  # double gamma and start the cluster heads anew when clusters die

    def __post_init__(self) -> None:
        for name in ("hidden_dim", "embedding_dim", "depth", "n_heads", "s"):
            _require(self, name, getattr(self, name) >= 1, "at least 1")
        for name in ("eps", "lr", "temperature"):
            _require(self, name, 0 < getattr(self, name) < math.inf, "a number above 0")
        for name in (
            "gamma",
            "weight_decay",
            "neighbours",
            "warmup_epochs",
            "finetune_epochs",
            "projection",
            "guide",
            "sample",
        ):
            _require(self, name, 0 <= getattr(self, name) < math.inf, "a number of at least 0")
        _require(self, "batch_size", self.batch_size >= 2, "at least 2, since BatchNorm needs more than one row")
        _require(self, "ema", 0 <= self.ema < 1, "at least 0 and below 1")
        if self.graph == "whole" and not self.neighbours:
            raise ValueError("graph='whole' needs neighbours, the number of edges at each point; give at least 1.")
        if self.cluster_module != "head" and (self.n_heads > 1 or self.guide):
            raise ValueError(
                f"cluster_module={self.cluster_module!r} has no cluster heads, but n_heads is {self.n_heads} and guide "
                f"{self.guide:g}; leave them out, or give 1 and 0."
            )
        if self.warmup_epochs + self.finetune_epochs == 0:
            raise ValueError("warmup_epochs and finetune_epochs are both 0; at least one must be above 0.")
        for name, choices in _CHOICES.items():
            _require(self, name, getattr(self, name) in choices, f"one of {', '.join(map(repr, choices))}")


def _require(settings: Settings, name: str, holds: bool, needed: str) -> None:
    if not holds:
        raise ValueError(f"{name} must be {needed}, but is {getattr(settings, name)!r}.")


_CHOICES: dict[str, tuple[str, ...]] = {
    "objective": ("cgmcr2", "reference"),
    "penalty": ("squared", "norm"),
    "affinity": ("cosine_topk", "gaussian", "doubly_stochastic", "cosine"),
    "membership": ("gumbel", "softmax"),
    "cluster_module": ("head", "k-means", "spectral", "ensc"),
    "graph": ("batch", "whole"),
    "schedule": ("constant-cosine", "reference"),
}

# The paper's Table A.3, row by row; the classes are those of its Table A.1.
_COLUMNS = (
    "classes",
    "lr",
    "weight_decay",
    "embedding_dim",
    "warmup_epochs",
    "finetune_epochs",
    "batch_size",
    "gamma",
    "eps",
    "s",
)
_PAPER_TABLE: dict[str, tuple[float, ...]] = {
    "mnist":        (10,   1e-3, 1e-3, 128, 20, 30, 2048, 50,    0.5, 20),
    "fmnist":       (10,   1e-3, 1e-3, 128, 20, 30, 2048, 50,    0.2, 20),
    "cifar10":      (10,   1e-4, 5e-4, 128, 10, 10, 512,  70,    0.5, 10),
    "cifar20":      (20,   1e-4, 5e-4, 128, 10, 40, 1500, 80,    0.2, 50),
    "cifar100":     (100,  5e-4, 1e-4, 128, 20, 30, 2048, 1400,  0.5, 20),
    "flowers102":   (102,  5e-4, 5e-4, 128, 20, 30, 2048, 1200,  0.5, 10),
    "dogs120":      (120,  1e-3, 1e-3, 128, 20, 30, 2048, 1100,  0.2, 40),
    "tinyimagenet": (200,  3e-4, 5e-4, 256, 20, 30, 2048, 3000,  0.5, 20),
    "imagenet":     (1000, 1e-3, 1e-4, 256, 10, 10, 3000, 50000, 0.2, 3),
}  # fmt: skip


def paper_settings(dataset: str) -> tuple[int, dict[str, Any]]:
    """The number of classes and the settings that the paper's table gives for ``dataset``.

    >>> paper_settings("cifar10")[1]["gamma"]
    70
    """
    name = dataset.lower().replace("-", "").replace("_", "").replace("fashionmnist", "fmnist").removesuffix("1k")
    if name not in _PAPER_TABLE:
        raise ValueError(f"The paper has no settings for {dataset!r}; it has them for {', '.join(_PAPER_TABLE)}.")
    row = dict(zip(_COLUMNS, _PAPER_TABLE[name], strict=True))
    return int(row.pop("classes")), row


def resolve(preset: Preset, n: int, k: int, D: int, overrides: dict[str, Any] | None = None) -> Settings:
    """The settings of ``preset`` for n rows of width D in k clusters; ``overrides`` that are not None win.

    ``paper`` takes the row of the paper's table whose number of classes is nearest to k (CIFAR-10's for 10).
    """
    if preset not in PRESETS:
        raise ValueError(f"preset must be one of {', '.join(map(repr, PRESETS))}, but is {preset!r}.")
    given = {name: value for name, value in (overrides or {}).items() if value is not None}
    unknown = given.keys() - {field.name for field in dataclasses.fields(Settings)}
    if unknown:
        raise ValueError(f"There is no setting named {sorted(unknown)[0]!r}; see cgmcr2.training.Settings.")
    if preset == "paper":
        values = _paper(k)
    elif preset == "reference":
        values = _reference(k)
    else:
        values = _auto(n, k, D, given)
    if given.get("cluster_module", "head") != "head":  # what concerns cluster heads alone
        values |= {"n_heads": 1, "guide": 0.0, "act_on_collapse": False}
    return Settings(**{**values, **given})


def _paper(k: int) -> dict[str, Any]:
    order = ["cifar10", *_PAPER_TABLE]  # of three data sets with ten classes, the first one named
    nearest = min(order, key=lambda name: abs(math.log(_PAPER_TABLE[name][0] / k)))
    return paper_settings(nearest)[1]


def _reference(k: int) -> dict[str, Any]:
    """The released code by its own command for CIFAR-10; gamma grows with k as docs/gamma.md derives."""
    return {
        "objective": "reference",
        "schedule": "reference",
        "penalty": "norm",
        "lr": 1e-4,
        "weight_decay": 1e-3,
        "batch_size": 512 if k <= 20 else 2048,
        "gamma": max(30.0, k**1.5),
        "s": 400,
        "warmup_epochs": 10,
        "finetune_epochs": 10,
        # its second forward pass in each step updates BatchNorm again: 1 - 0.9^2
        "bn_momentum": 0.19,
    }


def _auto(n: int, k: int, D: int, given: dict[str, Any]) -> dict[str, Any]:
    """Ours: everything from n, k and D. What was tried and measured on the way here is in docs/auto.md."""
    sample = given["sample"] if "sample" in given else max(20_000, 100 * k)
    n = min(n, sample or n)
    batch_size = given.get("batch_size") or min(n, 1024)
    steps_per_epoch = max(1, min(math.ceil(n / batch_size), n // 2))
    steps = max(150, math.ceil(7 * min(n, 20_000) / batch_size))  # small batches of one's own need more of them
    few = k <= 32
    return {
        "hidden_dim": 256 if few else 512,
        "projection": min(128 if few else 256, D),
        "embedding_dim": min(max(32, k), D),  # a direction for each cluster; further ones fill up with noise
        "eps": 0.5 if few else 1.0,  # more clusters lie closer together: let smaller differences go
        "n_heads": 2,
        "gamma": 5.0,  # squared penalty: any k is safe above 4, see docs/gamma.md
        "graph": "whole",
        "neighbours": min(10, n - 1),
        "guide": math.sqrt(k),  # as large as the cut, which grows with k
        "membership": "softmax",
        "ema": 0.97,
        "sample": sample,
        "batch_size": batch_size,
        "warmup_epochs": 0.4 * steps / steps_per_epoch,
        "finetune_epochs": 0.6 * steps / steps_per_epoch,
        "lr": 1e-3,
        "weight_decay": 1e-4,
        "act_on_collapse": True,
    }

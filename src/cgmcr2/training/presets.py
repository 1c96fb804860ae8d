"""The three presets that fill in the settings: ``auto``, ``paper`` and ``reference``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, get_args

from cgmcr2.consensus.ensemble import neighbourhood
from cgmcr2.consensus.views import COMPONENTS

from .batches import steps_per_epoch
from .settings import Settings, check_names, convert

Preset = Literal["auto", "paper", "reference"]
PRESETS: tuple[Preset, ...] = get_args(Preset)

# The paper's Table A.3, row by row; the numbers of classes are those of its Table A.1.
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
    """The number of classes and the settings of the paper's Table A.3 for ``dataset``.

    >>> paper_settings("cifar10")[1]["gamma"]
    70
    """
    name = dataset.lower().replace("-", "").replace("_", "").replace("fashionmnist", "fmnist").removesuffix("1k")
    if name not in _PAPER_TABLE:
        raise ValueError(f"The paper has no settings for {dataset!r}; choose from {', '.join(_PAPER_TABLE)}.")
    row = dict(zip(_COLUMNS, _PAPER_TABLE[name], strict=True))
    return int(row.pop("classes")), row


def check_rows(n: int) -> None:
    """Raise ``ValueError`` if n rows are too few to be clustered."""
    if n < 2:
        count = "One row" if n == 1 else f"{n} rows"
        raise ValueError(f"{count} cannot be clustered (n_samples={n}); give at least 2.")


def resolve(preset: Preset, n: int, k: int, D: int, overrides: Mapping[str, Any] | None = None) -> Settings:
    """The settings of ``preset`` for n rows of D features in k clusters; ``overrides`` take precedence.

    ``paper`` takes the row of Table A.3 whose number of classes is nearest to k on a log scale (CIFAR-10's for 10).
    """
    check_rows(n)
    if preset not in PRESETS:
        raise ValueError(f"preset must be one of {', '.join(map(repr, PRESETS))}, but is {preset!r}.")
    check_names(overrides or ())
    given = {name: convert(name, value) for name, value in (overrides or {}).items() if value is not None}
    if preset == "paper":
        values = _paper(k)
    elif preset == "reference":
        values = _reference(k)
    else:
        values = _auto(n, k, D, given)
    if given.get("cluster_module", "head") != "head":  # no cluster heads
        values |= {"n_heads": 1, "consensus_weight": 0.0}
    return Settings(**{**values, **given})


def _paper(k: int) -> dict[str, Any]:
    order = ["cifar10", *_PAPER_TABLE]  # CIFAR-10 first: three data sets have ten classes
    nearest = min(order, key=lambda name: abs(math.log(_PAPER_TABLE[name][0] / k)))
    return paper_settings(nearest)[1]


def _reference(k: int) -> dict[str, Any]:
    """The released code with its command for CIFAR-10; gamma grows with k, since the norm penalty weakens with it."""
    return {
        "objective": "released",
        "schedule": "released",
        "penalty": "norm",
        "lr": 1e-4,
        "weight_decay": 1e-3,
        "batch_size": 512 if k <= 20 else 2048,
        "gamma": max(30.0, k**1.5),
        "s": 400,
        "warmup_epochs": 10,
        "finetune_epochs": 10,
        "bn_momentum": 0.19,  # two forward passes per step update BatchNorm twice: 1 - 0.9^2
    }


def _auto(n: int, k: int, D: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings from n, k and D only, for any data set."""
    sample = given["sample"] if "sample" in given else max(20_000, 100 * k)
    n = min(n, sample or n)
    batch_size = given.get("batch_size") or min(n, 512)
    epoch = steps_per_epoch(n, batch_size)
    steps = max(150, math.ceil(5 * n / batch_size))  # at least five epochs; seven are no better
    return {
        "hidden_dim": 256 if k < 100 else 512,  # 256 units underfit hundreds of clusters
        "projection": min(COMPONENTS, D),
        "embedding_dim": min(64, D),  # more dimensions cost more in Rc and gain nothing
        "gamma": 5.0,  # with the squared penalty, trivial solutions are suboptimal above 4
        "graph": "whole",
        "neighbours": neighbourhood(n, k),
        "consensus_weight": float(k),  # the cut is a sum over the k clusters
        "membership": "softmax",
        "sample": sample,
        "batch_size": batch_size,
        "warmup_epochs": 0.4 * steps / epoch,
        "finetune_epochs": 0.6 * steps / epoch,
        "lr": 1e-3,
        "weight_decay": 1e-4,
    }

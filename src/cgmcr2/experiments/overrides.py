"""Overrides of settings, also by a factor, and the settings of quick runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# About a hundredth of the cost; a narrow network needs a larger learning rate.
QUICK_SETTINGS: dict[str, Any] = {
    "hidden_dim": "x0.125",
    "lr": "x8",
    "warmup_epochs": "x0.4",
    "finetune_epochs": "x0.4",
}
QUICK_BASELINE_SETTINGS: dict[str, Any] = {"max_steps": "x0.1"}  # of the baselines that train a network
QUICK_IMAGE_SETTINGS: dict[str, Any] = {"width": 16, "epochs": 5.0}  # of trained encoders and of methods on images
QUICK_STAGES: dict[str, Any] = {"pretrain_epochs": 5.0, "head_epochs": 3}  # of methods on images that have them
QUICK_ROWS = 10_000  # maximum number of rows to fit, and to score


def override(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` updated with ``changes``; a string such as ``"x2"`` multiplies the value in ``base``.

    >>> override({"gamma": 70, "lr": 0.1}, {"gamma": "x0.5", "s": 3})
    {'gamma': 35, 'lr': 0.1, 's': 3}
    """
    settings = dict(base)
    for name, value in changes.items():
        if isinstance(value, str) and re.fullmatch(r"x\d+(\.\d+)?", value):
            if name not in base:
                raise ValueError(f"{name}={value} multiplies the default, but {name} has none; pass a number.")
            product = base[name] * float(value[1:])
            value = int(product) if product.is_integer() else product
        settings[name] = value
    return settings

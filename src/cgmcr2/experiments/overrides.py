"""Overrides of settings, also by a factor, and the settings of quick runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cgmcr2.baselines import METHODS
from cgmcr2.pretrain.estimators import CLUSTERERS
from cgmcr2.training import PRESETS

# About a hundredth of the cost; a narrow network needs a larger learning rate.
QUICK_SETTINGS: dict[str, Any] = {
    "hidden_dim": "x0.125",
    "lr": "x8",
    "warmup_epochs": "x0.4",
    "finetune_epochs": "x0.4",
}
QUICK_BASELINE_SETTINGS: dict[str, Any] = {"max_steps": "x0.1"}  # of the baselines that train a network
QUICK_IMAGE_SETTINGS: dict[str, Any] = {"width": 16, "epochs": 5.0}  # of trained encoders and of methods on images
QUICK_STAGES: dict[str, Any] = {
    "pretrain_epochs": 5.0,
    "head_epochs": 3,
    "scan_epochs": 3.0,
}  # of methods on images that have them
QUICK_METHODS: dict[str, dict[str, Any]] = {"gcc": {"pretext_epochs": 2, "every": 1}}  # its clusters come after these
QUICK_ROWS = 10_000  # maximum number of rows to fit, and to score


def quick_settings(method: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``settings`` of a method at reduced size."""
    if method in METHODS:
        defaults = {**METHODS[method]().get_params(), **settings}
        changes = {name: value for name, value in QUICK_BASELINE_SETTINGS.items() if name in defaults}
        reduced = override(defaults, changes)
        return {**settings, **{name: reduced[name] for name in changes}}
    if method in CLUSTERERS:
        stages = CLUSTERERS[method]().get_params()
        changes = {name: value for name, value in QUICK_STAGES.items() if name in stages}
        return {**settings, **QUICK_IMAGE_SETTINGS, **QUICK_METHODS.get(method, {}), **changes}
    return override(settings, QUICK_SETTINGS) if method in PRESETS else dict(settings)


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

"""Run folders: the result of ``cluster`` and ``fit`` on disk, and what is done with it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .folder import RunFolder
from .info import RunInfo
from .predict import Evaluation, Prediction, Predictor

if TYPE_CHECKING:
    from .doctor import Finding, check_run, check_store, compact_store, repair_run
    from .edits import Edits
    from .fit import RunResult, choose_clusters, fit_features, fit_images
    from .refine import Refinement, Refiner

__all__ = [
    "Edits",
    "Evaluation",
    "Finding",
    "Prediction",
    "Predictor",
    "Refinement",
    "Refiner",
    "RunFolder",
    "RunInfo",
    "RunResult",
    "check_run",
    "check_store",
    "choose_clusters",
    "compact_store",
    "fit_features",
    "fit_images",
    "repair_run",
]

_HOMES = {
    "edits": ("Edits",),
    "doctor": ("Finding", "check_run", "check_store", "compact_store", "repair_run"),
    "refine": ("Refinement", "Refiner"),
    "fit": ("RunResult", "choose_clusters", "fit_features", "fit_images"),
}


def __getattr__(name: str) -> Any:
    """Import names that need scikit-learn on first use, so that ``cgmcr2 predict`` starts quickly."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

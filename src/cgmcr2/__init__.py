"""Find the groups in unlabelled images with graph Cut-guided Maximal Coding Rate Reduction (CgMCR²)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._version import __version__ as __version__

if TYPE_CHECKING:
    from .clustering import Clustering
    from .consensus import ConsensusClustering
    from .encoders import load_encoder
    from .estimator import CgMCR2
    from .features import FeatureStore
    from .pipeline import cluster_images
    from .runs import Edits

__all__ = ["CgMCR2", "Clustering", "ConsensusClustering", "Edits", "FeatureStore", "cluster_images", "load_encoder"]

_HOMES = {
    "CgMCR2": "estimator",
    "Clustering": "clustering",
    "ConsensusClustering": "consensus",
    "Edits": "runs",
    "FeatureStore": "features",
    "cluster_images": "pipeline",
    "load_encoder": "encoders",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that ``import cgmcr2`` is fast."""
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

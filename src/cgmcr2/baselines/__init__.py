"""Baselines: the methods that the paper compares with, and later ones, as estimators on fixed features.

>>> list(METHODS)[:3]
['k-means', 'spherical-k-means', 'spectral']
>>> make("k-means", 3, random_state=1)
KMeans(n_clusters=3, random_state=1)
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .base import Baseline

# Method name -> "module.Class"; the module is imported on first use.
_CLASSES = {
    "k-means": "kmeans.KMeans",
    "spherical-k-means": "kmeans.SphericalKMeans",
    "spectral": "spectral.Spectral",
    "ensc": "ensc.EnSC",
    "nmce": "nmce.NMCE",
    "mlc": "mlc.MLC",
    "cpp": "mlc.CPP",
    "neuncut": "neuncut.NeuNcut",
    "scan": "scan.SCAN",
    "temi": "temi.TEMI",
    "tac": "tac.TAC",
    "turtle": "turtle.TURTLE",
    "pro-dsc": "prodsc.PRODSC",
    "umap-k-means": "umap_kmeans.UMAPKMeans",
    "hdbscan": "hdbscan.HDBSCAN",
    "evoc": "evoc.EVoC",
}

__all__ = ["METHODS", "make", *sorted(path.partition(".")[2] for path in _CLASSES.values())]


class _Methods(Mapping[str, "type[Baseline]"]):
    """Mapping from method name to class, with lazy imports."""

    def __getitem__(self, name: str) -> type[Baseline]:
        module, _, class_name = _CLASSES[name].partition(".")
        method: type[Baseline] = getattr(importlib.import_module(f".{module}", __name__), class_name)
        return method

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)

    def __contains__(self, name: object) -> bool:
        return name in _CLASSES


METHODS: Mapping[str, type[Baseline]] = _Methods()


def make(name: str, n_clusters: int = 10, random_state: int = 0, **parameters: Any) -> Baseline:
    """Create an estimator by name.

    Parameters
    ----------
    name : str
        Key of ``METHODS``.
    n_clusters : int
        Number of clusters.
    random_state : int
        Random seed.
    **parameters
        Parameters of the method; defaults are documented in its class.

    Returns
    -------
    estimator : Baseline
    """
    if name not in METHODS:
        raise ValueError(f"There is no method named {name!r}; choose one of {', '.join(METHODS)}.")
    method = METHODS[name]
    valid = method().get_params()
    for parameter in parameters:
        if parameter not in valid:
            raise ValueError(f"{name} has no parameter named {parameter!r}; it has {', '.join(valid)}.")
    return method(n_clusters=n_clusters, random_state=random_state, **parameters)


def __getattr__(name: str) -> Any:
    for method, path in _CLASSES.items():
        if path.partition(".")[2] == name:
            return METHODS[method]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""The competitors: every method that the paper compares on fixed features, each with the estimator's face.

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

# One line a method: its name, and the module and class that are imported when it is first asked for.
_HOMES = {
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
}

__all__ = ["METHODS", "make", *sorted(home.partition(".")[2] for home in _HOMES.values())]


class _Methods(Mapping[str, "type[Baseline]"]):
    """Name to class; a class is imported when it is asked for."""

    def __getitem__(self, name: str) -> type[Baseline]:
        if name not in _HOMES:
            raise KeyError(name)
        module, _, kind = _HOMES[name].partition(".")
        found: type[Baseline] = getattr(importlib.import_module(f".{module}", __name__), kind)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(_HOMES)

    def __len__(self) -> int:
        return len(_HOMES)

    def __contains__(self, name: object) -> bool:
        return name in _HOMES


METHODS: Mapping[str, type[Baseline]] = _Methods()


def make(name: str, n_clusters: int = 10, random_state: int = 0, **settings: Any) -> Baseline:
    """The method of that name, with its published settings where none are given."""
    if name not in METHODS:
        raise ValueError(f"There is no method named {name!r}; there are {', '.join(METHODS)}.")
    kind = METHODS[name]
    known = kind().get_params()
    for setting in settings:
        if setting not in known:
            raise ValueError(f"{name} has no setting named {setting!r}; it has {', '.join(known)}.")
    return kind(n_clusters=n_clusters, random_state=random_state, **settings)


def __getattr__(name: str) -> Any:
    for method, home in _HOMES.items():
        if home.partition(".")[2] == name:
            return METHODS[method]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

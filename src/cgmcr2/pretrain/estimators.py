"""The estimators that cluster images from pixels, by name."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

from .clusterer import ImageClusterer

# Name -> "module.Class"; the module is imported on first use.
_CLASSES = {
    "cc": "cc.CC",
    "gcc": "gcc.GCC",
    "imc-swav": "imc_swav.IMCSwAV",
    "spice": "spice.SPICE",
    "scan-images": "scan_images.ImageSCAN",
    "nmce-images": "nmce_images.ImageNMCE",
    "mlc-images": "mlc_images.ImageMLC",
}


class _Clusterers(Mapping[str, "type[ImageClusterer]"]):
    """Mapping from name to class, with lazy imports."""

    def __getitem__(self, name: str) -> type[ImageClusterer]:
        module, _, class_name = _CLASSES[name].partition(".")
        kind: type[ImageClusterer] = getattr(importlib.import_module(f"cgmcr2.pretrain.{module}"), class_name)
        return kind

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)


CLUSTERERS: Mapping[str, type[ImageClusterer]] = _Clusterers()


def make_clusterer(name: str, n_clusters: int = 10, **parameters: Any) -> ImageClusterer:
    """Create an estimator by name. Parameters that the class does not have are ``settings`` of its training.

    >>> make_clusterer("cc", 3, random_state=1, width=8, settings={"epochs": 2})
    CC(n_clusters=3, random_state=1, settings={'epochs': 2, 'width': 8})
    """
    if name not in CLUSTERERS:
        raise ValueError(f"There is no method {name!r} that clusters images; choose from {', '.join(CLUSTERERS)}.")
    kind = CLUSTERERS[name]
    valid = kind().get_params()
    settings = {**(parameters.pop("settings", None) or {})}
    settings |= {name: parameters.pop(name) for name in list(parameters) if name not in valid}
    return kind(n_clusters, settings=settings or None, **parameters)

"""Images with labels in .npz files, next to feature files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cgmcr2.features.npy import npz_names, read_npz
from cgmcr2.features.sources import FeatureFile, is_features, load_feature_file, read_rows


def has_images(path: str | os.PathLike[str]) -> bool:
    """Whether ``path`` is an .npz with an array ``images``."""
    return Path(path).suffix.lower() == ".npz" and Path(path).is_file() and "images" in npz_names(path)


def load_input_file(path: str | os.PathLike[str], *, labels: str = "labels") -> FeatureFile:
    """Load a feature file, or an .npz with ``images`` uint8 (n, size, size, 3) in place of ``features``."""
    if not has_images(path):
        if Path(path).is_dir() and not is_features(path):
            raise ValueError(
                f"{os.fspath(path)} is not a feature store; make one with cgmcr2 embed, or give an .npz with 'images', "
                "of which methods take the pixels."
            )
        return load_feature_file(path, labels=labels)
    names = npz_names(path)
    if "features" in names:
        raise ValueError(f"{os.fspath(path)} has both 'images' and 'features'; give two files, and compare each.")
    arrays = read_npz(path, [name for name in ("images", labels, "split") if name in names])
    images = arrays["images"]
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] != 3:
        raise ValueError(
            f"The images in {path} must be uint8 of shape (n, size, size, 3), but are {images.dtype} of shape "
            f"{images.shape}."
        )
    for name, array in arrays.items():
        if len(array) != len(images):
            raise ValueError(f"{path} has {len(images):,} images, but {len(array):,} {name}.")
    return FeatureFile(images, labels=arrays.get(labels), split=arrays.get("split"))


def is_image_file(file: FeatureFile) -> bool:
    """Whether the rows of the file are images."""
    return len(file.features.shape) == 4


def feature_rows(file: FeatureFile, rows: Any) -> npt.NDArray[np.float32]:
    """The features of ``rows``; those of images are their pixels from 0 to 1, side by side.

    >>> file = FeatureFile(np.full((2, 1, 1, 3), 255, np.uint8))
    >>> feature_rows(file, [0]).tolist()
    [[1.0, 1.0, 1.0]]
    """
    if not is_image_file(file):
        return read_rows(file.features, rows)
    images = np.asarray(file.features[rows])
    return images.reshape(len(images), -1).astype(np.float32) / np.float32(255)

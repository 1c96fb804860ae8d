"""CIFAR-10, CIFAR-100, and CIFAR-20, which is CIFAR-100 with its 20 superclasses: the python batches."""

from __future__ import annotations

import io
import tarfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgmcr2.datasets.catalogs import pixel_catalog
from cgmcr2.datasets.dataset import Dataset
from cgmcr2.datasets.facts import DatasetInfo
from cgmcr2.datasets.places import find
from cgmcr2.datasets.unpickle import load_arrays

_TEN = ([f"data_batch_{number}" for number in range(1, 6)], ["test_batch"], "batches.meta")
_HUNDRED = (["train"], ["test"], "meta")
_KEYS = {  # data set: (key of its labels, key of its class names)
    "cifar10": ("labels", "label_names"),
    "cifar20": ("coarse_labels", "coarse_label_names"),
    "cifar100": ("fine_labels", "fine_label_names"),
}


def read_cifar(info: DatasetInfo, root: Path) -> Dataset:
    """One of the three from the folder of batches, or from the tar.gz as it was downloaded."""
    ten = info.name == "cifar10"
    train, test, meta = _TEN if ten else _HUNDRED
    folder, archive = (
        ("cifar-10-batches-py", "cifar-10-python.tar.gz") if ten else ("cifar-100-python", "cifar-100-python.tar.gz")
    )
    # the last: the folder of batches itself was given
    place = find(info, root, folder, archive, meta)
    wanted = [*train, *test, meta]
    files = _from_tar(place, wanted) if place.name == archive else _from_folder(place, wanted)
    for name in wanted:
        if name not in files:
            raise ValueError(f"{info.title} needs {name!r}, which is not in '{place}': get the official file again.")
    label_key, names_key = _KEYS[info.name]
    parts = {
        part: [_batch(files[name], label_key, name) for name in names]
        for part, names in (("train", train), ("test", test))
    }
    pixels = {part: np.concatenate([images for images, _ in batches]) for part, batches in parts.items()}
    labels = np.concatenate([numbers for batches in parts.values() for _, numbers in batches])
    names = load_arrays(io.BytesIO(files[meta]), meta).get(names_key)
    if not isinstance(names, list):
        raise ValueError(f"{meta!r} in '{place}' has no list {names_key!r}: get the official file again.")
    classes = [name.decode() if isinstance(name, bytes) else str(name) for name in names]
    split = np.repeat(np.array([0, 1], np.int8), [len(pixels["train"]), len(pixels["test"])])
    return Dataset(info, pixel_catalog(str(root), **pixels), labels, split, classes)


def _from_folder(place: Path, wanted: list[str]) -> dict[str, bytes]:
    folder = place if place.is_dir() else place.parent
    return {name: (folder / name).read_bytes() for name in wanted if (folder / name).is_file()}


def _from_tar(place: Path, wanted: list[str]) -> dict[str, bytes]:
    files = {}
    try:
        with tarfile.open(place) as archive:
            for member in archive:
                name = Path(member.name).name
                if name in wanted and member.isfile() and (file := archive.extractfile(member)):
                    files[name] = file.read()
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise ValueError(f"'{place}' cannot be read as a tar.gz ({error}): get it again.") from None
    return files


def _batch(data: bytes, label_key: str, name: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Pixels (n, 32, 32, 3) and labels (n,) of one batch, whose rows are the red, green and blue planes in turn."""
    batch: dict[str, Any] = load_arrays(io.BytesIO(data), name)
    rows, labels = batch.get("data"), batch.get(label_key)
    if not isinstance(rows, np.ndarray) or rows.ndim != 2 or rows.shape[1] != 3072 or not isinstance(labels, list):
        raise ValueError(f"{name!r} has no 'data' of shape (n, 3072) with {label_key!r}: get the official file again.")
    if len(rows) != len(labels):
        raise ValueError(f"{name!r} has {len(rows):,} images but {len(labels):,} labels: get the official file again.")
    return np.ascontiguousarray(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)), np.array(labels, np.int64)

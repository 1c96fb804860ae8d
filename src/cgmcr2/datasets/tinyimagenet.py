"""TinyImageNet: a folder a class for training; a folder and a list for validation, which is the paper's test set."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from cgmcr2.datasets.catalogs import chosen_catalog
from cgmcr2.datasets.dataset import Dataset
from cgmcr2.datasets.facts import DatasetInfo
from cgmcr2.datasets.places import find
from cgmcr2.images import Catalog

_TOP = "tiny-imagenet-200/"
_TRAIN = re.compile(r"train/(n\d{8})/images/.+\.JPEG$")


def read_tinyimagenet(info: DatasetInfo, root: Path) -> Dataset:
    """From the folder ``tiny-imagenet-200`` or its zip; classes in the order of their WordNet numbers."""
    place = find(info, root, "tiny-imagenet-200", "tiny-imagenet-200.zip", "wnids.txt")
    files = Catalog.from_source(place.parent if place.name == "wnids.txt" else place)
    places = {id.removeprefix(_TOP): number for id, number in files.positions.items()}

    def read(name: str) -> list[list[str]]:
        if name not in places:
            raise ValueError(f"{info.title} needs {name!r}, which is not in '{place}': get the official file again.")
        file = files[places[name]].load()
        assert not isinstance(file, np.ndarray)  # a folder and a zip give files
        with file:
            return [line.split("\t") for line in file.read().decode().splitlines() if line.strip()]

    wnids = sorted(line[0].strip() for line in read("wnids.txt"))
    words = {line[0]: line[1] for line in read("words.txt") if len(line) > 1}
    numbers = {wnid: number for number, wnid in enumerate(wnids)}
    train = sorted((id, match[1]) for id in places if (match := _TRAIN.match(id)))
    test = sorted((f"val/images/{line[0]}", line[1]) for line in read("val/val_annotations.txt") if len(line) > 1)
    for id, wnid in train + test:
        if wnid not in numbers:
            raise ValueError(f"{id!r} in '{place}' is of class {wnid!r}, which is not in wnids.txt: get it again.")
        if id not in places:
            raise ValueError(f"val_annotations.txt lists {id!r}, which is not in '{place}': get the file again.")
    catalog = chosen_catalog(str(root), ((id, files, places[id]) for id, _ in train + test))
    labels = np.array([numbers[wnid] for _, wnid in train + test], np.int64)
    split = np.repeat(np.array([0, 1], np.int8), [len(train), len(test)])
    return Dataset(info, catalog, labels, split, [words.get(wnid, wnid) for wnid in wnids])

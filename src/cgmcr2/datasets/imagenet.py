"""ImageNet-1k: the two official tars, or the folders they were unpacked to, and the development kit."""

from __future__ import annotations

import itertools
import os
import re
import tarfile
from array import array
from pathlib import Path

import numpy as np

from cgmcr2.datasets.catalogs import chosen_catalog
from cgmcr2.datasets.dataset import Dataset
from cgmcr2.datasets.facts import DatasetInfo
from cgmcr2.datasets.mat import read_mat, read_member
from cgmcr2.datasets.places import find
from cgmcr2.images import Catalog
from cgmcr2.images.folder import Listing
from cgmcr2.images.sources import TarSource

_TRAIN = re.compile(r"(?:^|/)(n\d{8})/([^/]+\.JPEG)$", re.IGNORECASE)
_VAL = re.compile(r"(?:^|/)(ILSVRC2012_val_(\d{8})\.JPEG)$", re.IGNORECASE)  # in class folders or not


def read_imagenet(info: DatasetInfo, root: Path) -> Dataset:
    """Training and validation set, the latter as the paper's test set; classes in the order of WordNet numbers."""
    kit = find(info, root, "ILSVRC2012_devkit_t12", "ILSVRC2012_devkit_t12.tar.gz")
    train_place = find(info, root, "train", "ILSVRC2012_img_train", "ILSVRC2012_img_train.tar")
    val_place = find(info, root, "val", "ILSVRC2012_img_val", "ILSVRC2012_img_val.tar")
    wnid_of, words = _read_kit(kit)
    wnids = sorted(wnid_of.values())
    numbers = {wnid: number for number, wnid in enumerate(wnids)}

    train = Catalog.from_source(train_place) if train_place.is_dir() else nested_catalog(train_place)
    chosen = sorted((match[1], match[2], place) for place, id in enumerate(train.ids) if (match := _TRAIN.search(id)))
    for wnid, name, _ in chosen:
        if wnid not in numbers:
            raise ValueError(
                f"{name!r} in '{train_place}' is of class {wnid}, which the development kit does not list."
            )
    val = Catalog.from_source(val_place)
    tested = sorted((int(match[2]), match[1], place) for place, id in enumerate(val.ids) if (match := _VAL.search(id)))
    truth = read_member(kit, "data/ILSVRC2012_validation_ground_truth.txt").split()
    if tested and tested[-1][0] > len(truth):
        raise ValueError(f"{tested[-1][1]!r} in '{val_place}' has no line in the ground truth of '{kit}'.")

    images = itertools.chain(
        ((f"train/{wnid}/{name}", train, place) for wnid, name, place in chosen),
        ((f"val/{name}", val, place) for _, name, place in tested),
    )
    labels = [numbers[wnid] for wnid, _, _ in chosen]
    labels += [numbers[wnid_of[int(truth[number - 1])]] for number, _, _ in tested]
    split = np.repeat(np.array([0, 1], np.int8), [len(chosen), len(tested)])
    catalog = chosen_catalog(str(root), images)
    return Dataset(info, catalog, np.array(labels, np.int64), split, [words[wnid] for wnid in wnids])


def _read_kit(kit: Path) -> tuple[dict[int, str], dict[str, str]]:
    """The WordNet number of each ILSVRC number, and its words; only of the leaves, which are the classes."""
    (synsets,) = read_mat(kit, "data/meta.mat", "synsets")
    leaves = [row for row in np.atleast_1d(synsets) if int(row["num_children"]) == 0]
    wnid_of = {int(row["ILSVRC2012_ID"]): str(row["WNID"]) for row in leaves}
    return wnid_of, {str(row["WNID"]): str(row["words"]) for row in leaves}


def nested_catalog(path: Path) -> Catalog:
    """The images in a tar of tars, which is not unpacked: only the places of their bytes are noted.

    The id is ``inner/name``, with the name of the inner tar without its ending.
    """
    listing, offsets, sizes = Listing(), array("q"), array("q")
    stamp = os.stat(path).st_mtime_ns
    try:
        with tarfile.open(path, "r:") as outer:
            for tar in outer:
                if not tar.isfile() or not tar.name.endswith(".tar"):
                    continue
                with tarfile.open(fileobj=outer.extractfile(tar), mode="r:") as inner:
                    for member in inner:
                        if member.isfile():
                            listing.add(f"{Path(tar.name).stem}/{Path(member.name).name}", member.size, stamp)
                            offsets.append(tar.offset_data + member.offset_data)
                            sizes.append(member.size)
    except tarfile.TarError as error:
        raise ValueError(f"'{path}' cannot be read as a tar of tars ({error}): get it again.") from None
    return Catalog(listing, TarSource(str(path), "", offsets, sizes), str(path))

"""ImageNet-1k: the development kit (devkit), and the two official tar archives or the folders unpacked from them."""

from __future__ import annotations

import itertools
import os
import re
import tarfile
from array import array
from pathlib import Path

import numpy as np

from cgmcr2.datasets.catalogs import matching_images, selection_catalog
from cgmcr2.datasets.dataset import Dataset, train_test_split
from cgmcr2.datasets.files import find_path, read_files
from cgmcr2.datasets.info import DatasetInfo
from cgmcr2.datasets.mat import read_mat
from cgmcr2.images import Catalog
from cgmcr2.images.folder import Listing
from cgmcr2.images.sources import TarSource
from cgmcr2.images.storage import file_info

_TRAIN = re.compile(r"(?:^|/)(n\d{8})/([^/]+\.JPEG)$", re.IGNORECASE)
_VAL = re.compile(r"(?:^|/)(ILSVRC2012_val_(\d{8})\.JPEG)$", re.IGNORECASE)  # with or without class folders
_GROUND_TRUTH = "data/ILSVRC2012_validation_ground_truth.txt"


def read_imagenet(info: DatasetInfo, root: Path) -> Dataset:
    """Read the training set and the validation set (the paper's test set).

    Classes are sorted by WordNet ID.
    """
    devkit = find_path(info, root, "ILSVRC2012_devkit_t12", "ILSVRC2012_devkit_t12.tar.gz")
    train_path = find_path(info, root, "train", "ILSVRC2012_img_train", "ILSVRC2012_img_train.tar")
    val_path = find_path(info, root, "val", "ILSVRC2012_img_val", "ILSVRC2012_img_val.tar")
    wnid_of, words = _read_synsets(devkit)
    wnids = sorted(wnid_of.values())
    label_of = {wnid: label for label, wnid in enumerate(wnids)}

    train_images = Catalog.from_source(train_path) if train_path.is_dir() else nested_tar_catalog(train_path)
    train = sorted((match[1], match[2], index) for match, index in matching_images(train_images, _TRAIN))
    for wnid, name, _ in train:
        if wnid not in label_of:
            raise ValueError(f"{name!r} in '{train_path}' has unknown class {wnid} (not in the devkit).")
    val_images = Catalog.from_source(val_path)
    val = sorted((int(match[2]), match[1], index) for match, index in matching_images(val_images, _VAL))
    ground_truth = read_files(devkit, [_GROUND_TRUTH])[_GROUND_TRUTH].split()
    if val and val[-1][0] > len(ground_truth):
        raise ValueError(f"{val[-1][1]!r} in '{val_path}' has no ground-truth label in '{devkit}'.")

    images = itertools.chain(
        ((f"train/{wnid}/{name}", train_images, index) for wnid, name, index in train),
        ((f"val/{name}", val_images, index) for _, name, index in val),
    )
    labels = [label_of[wnid] for wnid, _, _ in train]
    labels += [label_of[wnid_of[int(ground_truth[image_number - 1])]] for image_number, _, _ in val]
    catalog = selection_catalog(str(root), images)
    split = train_test_split(len(train), len(val))
    return Dataset(info, catalog, np.array(labels, np.int64), split, [words[wnid] for wnid in wnids])


def _read_synsets(devkit: Path) -> tuple[dict[int, str], dict[str, str]]:
    """Return the WordNet ID of each ILSVRC ID, and the words of each WordNet ID. Non-leaf synsets are skipped."""
    (synsets,) = read_mat(devkit, "data/meta.mat", "synsets")
    leaves = [row for row in np.atleast_1d(synsets) if int(row["num_children"]) == 0]
    wnid_of = {int(row["ILSVRC2012_ID"]): str(row["WNID"]) for row in leaves}
    return wnid_of, {str(row["WNID"]): str(row["words"]) for row in leaves}


def nested_tar_catalog(path: Path) -> Catalog:
    """List the images in a nested tar archive by their byte offsets, without unpacking it.

    The ID of an image is ``inner/name``, where ``inner`` is the name of the inner tar without its suffix.
    """
    listing, offsets, sizes = Listing(), array("q"), array("q")
    mtime_ns = os.stat(path).st_mtime_ns
    try:
        with tarfile.open(path, "r:") as outer:
            for inner_tar in outer:
                if not inner_tar.isfile() or not inner_tar.name.endswith(".tar"):
                    continue
                with tarfile.open(fileobj=outer.extractfile(inner_tar), mode="r:") as inner:
                    for member in inner:
                        if member.isfile():
                            listing.add(f"{Path(inner_tar.name).stem}/{Path(member.name).name}", member.size, mtime_ns)
                            offsets.append(inner_tar.offset_data + member.offset_data)
                            sizes.append(member.size)
    except tarfile.TarError as error:
        raise ValueError(f"'{path}' cannot be read as a nested tar archive ({error}): download it again.") from None
    return Catalog(listing, TarSource(file_info(str(path)), "", offsets, sizes), str(path))

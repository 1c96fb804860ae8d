"""Oxford Flowers-102: numbered images, and a MATLAB file with their labels."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from cgmcr2.datasets.catalogs import matching_images, selection_catalog
from cgmcr2.datasets.dataset import Dataset
from cgmcr2.datasets.files import find_path
from cgmcr2.datasets.info import DatasetInfo
from cgmcr2.datasets.mat import read_mat
from cgmcr2.images import Catalog

# Class names in the order of the labels; the official files contain only numbers.
_CLASSES = """pink primrose, hard-leaved pocket orchid, canterbury bells, sweet pea, english marigold, tiger lily,
moon orchid, bird of paradise, monkshood, globe thistle, snapdragon, colt's foot, king protea, spear thistle,
yellow iris, globe-flower, purple coneflower, peruvian lily, balloon flower, giant white arum lily, fire lily,
pincushion flower, fritillary, red ginger, grape hyacinth, corn poppy, prince of wales feathers, stemless gentian,
artichoke, sweet william, carnation, garden phlox, love in the mist, mexican aster, alpine sea holly,
ruby-lipped cattleya, cape flower, great masterwort, siam tulip, lenten rose, barbeton daisy, daffodil, sword lily,
poinsettia, bolero deep blue, wallflower, marigold, buttercup, oxeye daisy, common dandelion, petunia, wild pansy,
primula, sunflower, pelargonium, bishop of llandaff, gaura, geranium, orange dahlia, pink-yellow dahlia,
cautleya spicata, japanese anemone, black-eyed susan, silverbush, californian poppy, osteospermum, spring crocus,
bearded iris, windflower, tree poppy, gazania, azalea, water lily, rose, thorn apple, morning glory, passion flower,
lotus, toad lily, anthurium, frangipani, clematis, hibiscus, columbine, desert-rose, tree mallow, magnolia, cyclamen,
watercress, canna lily, hippeastrum, bee balm, ball moss, foxglove, bougainvillea, camellia, mallow, mexican petunia,
bromelia, blanket flower, trumpet creeper, blackberry lily"""
_NUMBER = re.compile(r"(?:^|/)image_(\d{5})\.jpg$")


def read_flowers(info: DatasetInfo, root: Path) -> Dataset:
    """Read all images, ordered by number (folder ``jpg``) or by position in the archive, which is fastest to read."""
    mat = find_path(info, root, "imagelabels.mat")
    images = Catalog.from_source(find_path(info, root, "jpg", "102flowers.tgz"))
    (values,) = read_mat(mat, mat.name, "labels")
    labels = np.atleast_1d(values).astype(np.int64) - 1  # MATLAB counts from 1
    numbered = [(int(match[1]), index) for match, index in matching_images(images, _NUMBER)]
    missing = sorted(set(range(1, len(labels) + 1)).symmetric_difference(number for number, _ in numbered))
    if missing:
        raise ValueError(
            f"{info.title} has {len(labels):,} labels in '{mat}' and {len(numbered):,} images in {images.origin!r}, "
            f"and number {missing[0]} is only in one of them: download both again."
        )
    catalog = selection_catalog(
        str(root), ((f"jpg/image_{number:05d}.jpg", images, index) for number, index in numbered)
    )
    rows = np.array([number - 1 for number, _ in numbered])
    classes = _CLASSES.replace("\n", " ").split(", ")[: info.classes]
    return Dataset(info, catalog, labels[rows], None, classes)

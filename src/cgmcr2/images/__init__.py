"""From files to pixels: list images (``Catalog``), decode one (``decode``) or many in order (``iter_decoded``)."""

from cgmcr2.images.batches import iter_decoded
from cgmcr2.images.catalog import Catalog, ImageItem
from cgmcr2.images.decode import DECODE_VERSION, decode

__all__ = ["DECODE_VERSION", "Catalog", "ImageItem", "decode", "iter_decoded"]

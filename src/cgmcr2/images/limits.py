"""Limits of one image and of one archive, so that hostile files cost bounded time and memory.

An image may have ``MAX_PIXELS`` pixels after JPEG downscaling, a file ``MAX_FILE_BYTES`` bytes, and a member of an
archive ``MAX_MEMBER_BYTES``. Images of more than ``LARGE_PIXELS`` are decoded one at a time.
"""

from __future__ import annotations

MAX_PIXELS = 89_478_485  # Pillow's limit for decompression bombs, about 360 MB; applied to JPEGs after downscaling
LARGE_PIXELS = 16_000_000  # larger images are decoded one at a time and downscaled early, to limit memory
MAX_FILE_BYTES = 2**30  # twice an uncompressed 16-bit image of MAX_PIXELS
MAX_MEMBER_BYTES = 256 * 2**20  # an archived image is in memory while it is decoded
MAX_PROFILE_BYTES = 2**24  # colour profiles of printers have about 2 MB
MAX_RATIO = 100  # compressed data may expand without limit to FREE_BYTES, beyond that by this factor
FREE_BYTES = 256 * 2**20  # equal labels or blank images may be compressed by any factor up to this size


def check_ratio(name: str, size: int, compressed: int) -> None:
    """Raise ``ValueError`` if data of ``size`` bytes is much larger than its compressed size.

    >>> check_ratio("the array 'x'", 2**40, 2**20)
    Traceback (most recent call last):
        ...
    ValueError: the array 'x' is a suspected decompression bomb: 1,099,511,627,776 bytes from 1,048,576
    """
    if size > FREE_BYTES and size > MAX_RATIO * compressed:
        raise ValueError(f"{name} is a suspected decompression bomb: {size:,} bytes from {compressed:,}")


def check_file_size(size: int, limit: int = MAX_FILE_BYTES) -> None:
    """Raise ``ValueError`` if a file is too large for an image.

    >>> check_file_size(3 * 2**30)
    Traceback (most recent call last):
        ...
    ValueError: too large for an image: 3072 MB, the limit is 1024 MB
    """
    if size > limit:
        raise ValueError(f"too large for an image: {size / 2**20:.0f} MB, the limit is {limit / 2**20:.0f} MB")

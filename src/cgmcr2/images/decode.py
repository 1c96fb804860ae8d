"""Decode one image file of any supported format to RGB."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from cgmcr2.images.limits import LARGE_PIXELS, MAX_PIXELS
from cgmcr2.images.profiles import to_srgb

if TYPE_CHECKING:
    from cgmcr2.images.catalog import ImageItem
    from cgmcr2.images.sources import ImageData

DECODE_VERSION = 2
"""Increased when decoding changes, so that features of old and new pixels are never mixed."""

_large_image_lock = threading.Lock()

_HEIF_BRANDS = (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"hevm", b"hevs", b"mif1", b"msf1", b"heif")
_TRANSPOSITIONS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_EXIF_ORIENTATION = 0x0112


def decode(item: ImageItem, size: int | None = None) -> Image.Image:
    """Decode an image to upright 8-bit RGB.

    The first frame is used, transparency is blended with white, embedded colour profiles are converted to sRGB, and
    16-bit values are scaled to 8 bits. An image that
    cannot be read raises an exception, which :func:`error_reason` turns into one line.

    Parameters
    ----------
    item : ImageItem
        Image of a catalog.
    size : int, optional
        Shorter side that the caller needs. JPEGs are decoded at 1/2, 1/4 or 1/8 of their size if that is still at
        least ``size``, which is several times as fast.

    Examples
    --------
    >>> import tempfile
    >>> from cgmcr2.images import Catalog
    >>> folder = tempfile.mkdtemp()
    >>> Image.new("L", (640, 480), 9).save(folder + "/grey.jpg")
    >>> image = decode(Catalog.from_source(folder)[0], size=100)
    >>> image.mode, image.size
    ('RGB', (160, 120))
    """
    return decode_data(item.load(), size)


def decode_data(data: ImageData, size: int | None = None, *, large_pixels: int = LARGE_PIXELS) -> Image.Image:
    """Decode the result of :meth:`ImageItem.load` like :func:`decode`, and close the file."""
    if isinstance(data, np.ndarray):
        return _to_rgb(_from_pixels(data))
    with data:
        image = open_image(data)
        large = image.width * image.height > large_pixels
        with _large_image_lock if large else contextlib.nullcontext():
            if size is not None:
                image.draft("RGB", (size, size))
            if image.width * image.height > MAX_PIXELS:
                raise Image.DecompressionBombError(
                    f"{image.width} x {image.height} pixels, the limit is {MAX_PIXELS:,}"
                )
            with _damage_in_pillow():
                image.load()
            # read after load(): Pillow rotates TIFF itself, and PNG may store EXIF after the pixels
            orientation = _orientation(image)
            profile = image.info.get("icc_profile")
            if large and size is not None and image.mode in ("L", "LA", "RGB", "RGBA", "CMYK"):
                image = image.reduce(max(1, min(image.size) // (2 * size)))
            image = _to_rgb(image, profile)
            return image.transpose(_TRANSPOSITIONS[orientation]) if orientation in _TRANSPOSITIONS else image


def open_image(data: ImageData) -> Image.Image:
    """Open an image file without decoding it; pixel arrays are wrapped as they are."""
    if isinstance(data, np.ndarray):
        return _from_pixels(data)
    start = data.read(16)
    if not start:
        raise ValueError("the file is empty")
    data.seek(0)
    with _damage_in_pillow():
        try:
            image = Image.open(data)
        except UnidentifiedImageError:
            if start[4:8] != b"ftyp" or start[8:12] not in _HEIF_BRANDS:
                raise
            _register_heif()
            data.seek(0)
            image = Image.open(data)
    if image.format == "EPS":  # Pillow would execute the file with Ghostscript
        raise ValueError("EPS files are programs and are not executed: convert it to PNG first")
    return image


class DamagedImageError(Exception):
    """Pillow failed to read an image file."""


@contextlib.contextmanager
def _damage_in_pillow() -> Iterator[None]:
    """Distinguish errors of Pillow's parsers, such as "invalid literal for int()", from those of this package."""
    try:
        yield
    except ValueError as error:
        raise DamagedImageError(str(error)) from error


def error_reason(error: BaseException) -> str:
    """Return in one line why an image could not be read.

    >>> error_reason(ValueError("the file is empty"))
    'the file is empty'
    >>> error_reason(PermissionError(13, "Permission denied"))
    'cannot be read: Permission denied'
    """
    if isinstance(error, UnidentifiedImageError):
        return "not an image, or an unsupported image format"
    text = " ".join(str(error).split())
    if isinstance(error, Image.DecompressionBombError | Image.DecompressionBombWarning):
        text = f"suspected decompression bomb: {text}"
    elif isinstance(error, MemoryError):
        text = "out of memory"
    elif isinstance(error, OSError) and error.strerror:
        text = f"cannot be read: {error.strerror}"
    elif not isinstance(error, ValueError | ImportError):
        text = f"damaged: {text or type(error).__name__}"
    return text[:300] or type(error).__name__


@functools.cache
def _register_heif() -> None:
    try:
        import pillow_heif
    except ImportError:
        raise ImportError("HEIC needs pillow-heif: pip install 'cgmcr2[photos]'") from None
    pillow_heif.register_heif_opener()


def _from_pixels(pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> Image.Image:
    return Image.fromarray(pixels[:, :, 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels)


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(_EXIF_ORIENTATION, 1))
    except Exception:  # a photo with damaged metadata is still usable
        return 1


def _to_rgb(image: Image.Image, profile: bytes | None = None) -> Image.Image:
    """Convert any mode to RGB, and the colours of an embedded ``profile`` to sRGB."""
    if image.mode.startswith("I") or image.mode == "F":
        image = _to_8_bits(image)
    if image.has_transparency_data:
        rgba = image.convert("RGBA")
        white = Image.new("RGB", image.size, "white")
        white.paste(rgba, mask=rgba.getchannel("A"))
        return to_srgb(white, profile)
    if image.mode == "LAB":
        from PIL import ImageCms

        lab, srgb = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
        converted = ImageCms.profileToProfile(image, lab, srgb, outputMode="RGB")
        assert converted is not None  # None only for in-place conversion
        return converted
    if image.mode in ("L", "CMYK"):
        return to_srgb(image, profile).convert("RGB")
    return to_srgb(image.convert("RGB"), profile)


def _to_8_bits(image: Image.Image) -> Image.Image:
    """Scale 16-bit greyscale by its full range, and 32-bit integers and floats from their minimum to maximum."""
    values = np.asarray(image)
    is_old_png = image.format == "PNG" and image.mode == "I"  # older Pillow opens 16-bit PNG as "I"
    step = max(1, 2**18 // image.width)
    blocks = [slice(row, row + step) for row in range(0, image.height, step)]  # to limit the memory for floats
    if image.mode.startswith("I;16") or is_old_png:
        low, high = 0.0, 65535.0
    else:
        ranges = [_finite_range(values[rows]) for rows in blocks]
        low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
        if low > high:  # no finite value
            low, high = 0.0, 1.0
    result = np.empty(values.shape, np.uint8)
    for rows in blocks:
        with np.errstate(invalid="ignore"):  # signalling NaNs
            block = np.nan_to_num(values[rows].astype(np.float64), nan=low, posinf=high, neginf=low)
        scaled = (block - low) * (255.0 / (high - low) if high > low else 0.0)
        result[rows] = np.rint(scaled).clip(0, 255)
    return Image.fromarray(result)


def _finite_range(values: npt.NDArray[Any]) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if finite.size else (np.inf, -np.inf)

"""One image file to RGB pixels, whatever its format; what cannot be read is an exception with a plain reason."""

from __future__ import annotations

import contextlib
import functools
import threading
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, UnidentifiedImageError

if TYPE_CHECKING:
    from cgmcr2.images.catalog import ImageItem
    from cgmcr2.images.sources import Loaded

DECODE_VERSION = 1
"""Raised when the same file gives other pixels than before, so that features from the old ones are not mixed in."""

MAX_PIXELS = 89_478_485  # Pillow's own bound for a bomb; about 360 MB when decoded. For JPEG it counts after `draft`.
_LARGE_PIXELS = 16_000_000  # more than a usual photo: such images are decoded one at a time and shrunk early
_one_large_at_a_time = threading.Lock()

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
    """The image as upright 8-bit RGB: the first frame, transparency on white, 16 bits scaled to 8.

    ``size`` is the shorter side that the caller needs: JPEGs are then decoded at 1/2, 1/4 or 1/8 if that is still as
    large, which is several times as fast. What cannot be read raises; :func:`reason` puts the exception in plain words.

    >>> import tempfile
    >>> from cgmcr2.images import Catalog
    >>> folder = tempfile.mkdtemp()
    >>> Image.new("L", (640, 480), 9).save(folder + "/grey.jpg")
    >>> image = decode(Catalog.from_source(folder)[0], size=100)
    >>> image.mode, image.size
    ('RGB', (160, 120))
    """
    return decode_loaded(item.load(), size)


def decode_loaded(loaded: Loaded, size: int | None = None) -> Image.Image:
    """:func:`decode` for what :meth:`ImageItem.load` gave; closes the file."""
    if isinstance(loaded, np.ndarray):
        return _to_rgb(_from_pixels(loaded))
    with loaded:
        image = open_image(loaded)
        large = image.width * image.height > _LARGE_PIXELS
        with _one_large_at_a_time if large else contextlib.nullcontext():
            if size is not None:
                image.draft("RGB", (size, size))
            if image.width * image.height > MAX_PIXELS:
                raise Image.DecompressionBombError(
                    f"{image.width} x {image.height} pixels, the limit is {MAX_PIXELS:,}"
                )
            image.load()
            orientation = _orientation(image)  # after load: TIFF turns itself, and PNG may name it after the pixels
            if large and size is not None and image.mode in ("L", "LA", "RGB", "RGBA", "CMYK"):
                image = image.reduce(max(1, min(image.size) // (2 * size)))
            image = _to_rgb(image)
            return image.transpose(_TRANSPOSITIONS[orientation]) if orientation in _TRANSPOSITIONS else image


def open_image(loaded: Loaded) -> Image.Image:
    """The image in an open file, identified but not decoded; pixels become an image as they are."""
    if isinstance(loaded, np.ndarray):
        return _from_pixels(loaded)
    start = loaded.read(16)
    if not start:
        raise ValueError("the file is empty")
    loaded.seek(0)
    try:
        image = Image.open(loaded)
    except UnidentifiedImageError:
        if start[4:8] != b"ftyp" or start[8:12] not in _HEIF_BRANDS:
            raise
        _register_heif()
        loaded.seek(0)
        image = Image.open(loaded)
    if image.format == "EPS":  # Pillow would hand the file to Ghostscript, which runs it as a program
        raise ValueError("EPS files are programs and are not run: convert it to PNG first")
    return image


def reason(error: BaseException) -> str:
    """Why an image could not be read, in one line.

    >>> reason(ValueError("the file is empty"))
    'the file is empty'
    >>> reason(PermissionError(13, "Permission denied"))
    'cannot be read: Permission denied'
    """
    if isinstance(error, UnidentifiedImageError):
        return "not an image, or in a format that is not known here"
    text = " ".join(str(error).split())
    if isinstance(error, Image.DecompressionBombError | Image.DecompressionBombWarning):
        text = f"too many pixels (a decompression bomb?): {text}"
    elif isinstance(error, MemoryError):
        text = "too large for the memory"
    elif isinstance(error, OSError) and error.strerror:
        text = f"cannot be read: {error.strerror}"
    elif not isinstance(error, ValueError | ImportError):
        text = f"broken: {text or type(error).__name__}"
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
    except Exception:  # broken metadata is no reason to lose the photo
        return 1


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I") or image.mode == "F":
        image = _to_8_bits(image)
    if image.has_transparency_data:
        rgba = image.convert("RGBA")
        white = Image.new("RGB", image.size, "white")
        white.paste(rgba, mask=rgba.getchannel("A"))
        return white
    if image.mode == "LAB":
        from PIL import ImageCms

        lab, srgb = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
        converted = ImageCms.profileToProfile(image, lab, srgb, outputMode="RGB")
        assert converted is not None  # it is None only in place
        return converted
    return image.convert("RGB")


def _to_8_bits(image: Image.Image) -> Image.Image:
    """Grey of 16 bits by its full range; 32-bit integers and floats, which have no fixed white, from min to max."""
    values = np.asarray(image).astype(np.float32)
    if image.mode.startswith("I;16") or (
        image.format == "PNG" and image.mode == "I"
    ):  # older Pillow: PNG of 16 bits is "I"
        low, high = 0.0, 65535.0
    else:
        finite = values[np.isfinite(values)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
        values = np.nan_to_num(values, nan=low, posinf=high, neginf=low)
    scaled = (values - low) * (255.0 / (high - low) if high > low else 0.0)
    return Image.fromarray(np.rint(scaled).clip(0, 255).astype(np.uint8))

"""Convert the colours of embedded ICC profiles, such as Display P3 or Adobe RGB, to sRGB."""

from __future__ import annotations

import functools
import io

from PIL import Image, ImageCms

from cgmcr2.images.limits import MAX_PROFILE_BYTES

_COLOUR_SPACES = {"RGB": "RGB", "L": "GRAY", "CMYK": "CMYK"}  # of a profile, for each mode of an image


def to_srgb(image: Image.Image, profile: bytes | None) -> Image.Image:
    """Convert an image of mode RGB, L or CMYK from ``profile`` to sRGB.

    The image is returned unchanged if its profile is missing, damaged, that of sRGB, or of another colour space.
    """
    if not profile or not isinstance(profile, bytes) or len(profile) > MAX_PROFILE_BYTES:
        return image
    try:
        transform = _transform(profile, image.mode)
        converted = None if transform is None else ImageCms.applyTransform(image, transform)
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError):  # a photo with a damaged profile is still usable
        return image
    return converted or image


@functools.lru_cache(32)
def _transform(profile: bytes, mode: str) -> ImageCms.ImageCmsTransform | None:
    """Return the transform from a profile to sRGB, None if there is nothing to convert."""
    source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
    if source.profile.xcolor_space.strip() != _COLOUR_SPACES.get(mode):
        return None
    if "srgb" in (source.profile.profile_description or "").lower():
        return None
    return ImageCms.buildTransform(source, ImageCms.createProfile("sRGB"), mode, "RGB")

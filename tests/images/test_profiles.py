"""Embedded colour profiles are converted to sRGB."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
from PIL import Image, ImageCms

from cgmcr2.images.decode import decode_data
from cgmcr2.images.limits import MAX_PROFILE_BYTES
from cgmcr2.images.profiles import to_srgb


def srgb_profile() -> bytes:
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def swapped_profile() -> bytes:
    """The profile of sRGB with the primaries red and blue exchanged, under another name."""
    data = bytearray(srgb_profile())
    (count,) = struct.unpack_from(">I", data, 128)
    tags = {bytes(data[132 + 12 * i : 136 + 12 * i]): 132 + 12 * i for i in range(count)}
    red, blue = tags[b"rXYZ"], tags[b"bXYZ"]
    data[red + 4 : red + 12], data[blue + 4 : blue + 12] = data[blue + 4 : blue + 12], data[red + 4 : red + 12]
    return bytes(data).replace("sRGB".encode("utf-16-be"), "swap".encode("utf-16-be"))


def decoded_pixel(image: Image.Image, format: str, profile: bytes) -> list[int]:
    file = io.BytesIO()
    image.save(file, format, icc_profile=profile)
    file.seek(0)
    return list(decode_data(file).getpixel((0, 0)))  # type: ignore[arg-type]


@pytest.mark.parametrize("format", ["PNG", "JPEG", "TIFF", "WEBP"])
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P"])
def test_colours_are_converted_to_srgb(format: str, mode: str) -> None:
    if (format, mode) in (("JPEG", "RGBA"), ("JPEG", "P")):
        pytest.skip("JPEG has neither palettes nor transparency")
    image = Image.new("RGB", (16, 16), (255, 0, 0)).convert(mode)
    assert np.abs(np.subtract(decoded_pixel(image, format, swapped_profile()), [0, 0, 255])).max() < 8


def test_profile_of_srgb_changes_nothing() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (9, 9, 3), np.uint8)
    np.testing.assert_array_equal(np.asarray(to_srgb(Image.fromarray(pixels), srgb_profile())), pixels)


@pytest.mark.parametrize(
    "profile",
    [None, b"", b"no profile", srgb_profile()[:200], swapped_profile()[:-1500], bytes(MAX_PROFILE_BYTES + 1)],
    ids=["none", "empty", "text", "header only", "truncated", "too large"],
)
def test_damaged_profile_is_ignored(profile: bytes | None) -> None:
    image = Image.new("RGB", (2, 2), (250, 20, 10))
    assert to_srgb(image, profile).getpixel((0, 0)) == (250, 20, 10)


@pytest.mark.parametrize("mode", ["L", "CMYK"])
def test_profile_of_another_colour_space_is_ignored(mode: str) -> None:
    image = Image.new(mode, (2, 2))
    assert to_srgb(image, swapped_profile()) is image


def test_mutated_profiles_give_an_image() -> None:
    random = np.random.default_rng(0)
    image = Image.new("RGB", (4, 4), (10, 100, 200))
    for _ in range(300):
        broken = bytearray(swapped_profile())
        for position in random.integers(0, len(broken), 5):
            broken[position] = random.integers(0, 256)
        assert to_srgb(image, bytes(broken)).size == (4, 4)

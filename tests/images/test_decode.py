"""Decode images of every format, mode and orientation, and damaged or malicious files."""

from __future__ import annotations

import importlib
import io
import os
import struct
import sys
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cgmcr2.images import Catalog, decode
from cgmcr2.images.decode import MAX_PIXELS, decode_data, error_reason

MODULE = importlib.import_module("cgmcr2.images.decode")  # the package has the function under the same name


def gradient(size: tuple[int, int] = (64, 48)) -> Image.Image:
    x, y = np.meshgrid(np.linspace(0, 255, size[0]), np.linspace(0, 255, size[1]))
    return Image.fromarray(np.stack([x, y, 255 - x], axis=2).astype(np.uint8))


def encoded(image: Image.Image, format: str, **options: Any) -> io.BytesIO:
    file = io.BytesIO()
    image.save(file, format, **options)
    file.seek(0)
    return file


def round_trip(image: Image.Image, format: str, size: int | None = None, **options: Any) -> np.ndarray:
    """Encode and decode an image; return its pixels (H, W, 3)."""
    decoded = decode_data(encoded(image, format, **options), size)
    assert decoded.mode == "RGB"
    return np.asarray(decoded).astype(int)


FORMATS = [
    "PNG",
    "BMP",
    "TIFF",
    "WEBP",
    "PPM",
    "TGA",
    "PCX",
    "SGI",
    "JPEG",
    "JPEG2000",
    "GIF",
    "ICO",
    "DDS",
    "AVIF",
    "QOI",
]


@pytest.mark.parametrize("format", FORMATS)
def test_formats(format: str) -> None:
    if format not in Image.SAVE and (Image.init() or format not in Image.SAVE):
        pytest.skip(f"this Pillow cannot write {format}")
    image = gradient()
    options: dict[str, Any] = {"lossless": True} if format == "WEBP" else {}
    if format == "ICO":
        image, options = gradient((64, 64)), {"sizes": [(64, 64)]}
    pixels = round_trip(image, format, **options)
    assert pixels.shape == np.asarray(image).shape
    assert np.abs(pixels - np.asarray(image)).mean() < 8  # lossy formats and GIF's palette change pixels slightly


def test_heic_with_and_without_pillow_heif(monkeypatch: pytest.MonkeyPatch) -> None:
    pillow_heif = pytest.importorskip("pillow_heif")
    file = io.BytesIO()
    pillow_heif.from_pillow(gradient()).save(file)
    pixels = np.asarray(decode_data(io.BytesIO(file.getvalue()))).astype(int)
    assert np.abs(pixels - np.asarray(gradient())).mean() < 8
    # without pillow-heif, the error names the package to install
    MODULE._register_heif.cache_clear()
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    monkeypatch.setattr(Image, "ID", [name for name in Image.ID if name != "HEIF"])
    with pytest.raises(ImportError, match=r"pip install 'cgmcr2\[photos\]'"):
        decode_data(io.BytesIO(file.getvalue()))
    MODULE._register_heif.cache_clear()


def test_greyscale_and_one_bit() -> None:
    grey = gradient().convert("L")
    np.testing.assert_array_equal(round_trip(grey, "PNG"), np.repeat(np.asarray(grey)[:, :, None], 3, axis=2))
    assert set(np.unique(round_trip(grey.convert("1"), "PNG"))) == {0, 255}


@pytest.mark.parametrize("format", ["PNG", "TIFF"])
def test_16_bits_are_scaled_by_their_full_range(format: str) -> None:
    values = np.array([[0, 257, 32768, 65535]], np.uint16)
    assert round_trip(Image.fromarray(values), format)[0, :, 0].tolist() == [0, 1, 128, 255]


def test_floats_and_32_bits_are_scaled_from_min_to_max() -> None:
    assert round_trip(Image.fromarray(np.array([[-1, 0, 1]], np.float32)), "TIFF")[0, :, 1].tolist() == [0, 128, 255]
    assert round_trip(Image.fromarray(np.array([[np.nan, np.inf, 1, 3]], np.float32)), "TIFF")[0, :, 0].tolist() == [
        0,
        255,
        0,
        255,
    ]
    assert round_trip(Image.fromarray(np.array([[0, 10**6]], np.int32)), "TIFF")[0, :, 0].tolist() == [0, 255]
    assert round_trip(Image.fromarray(np.full((2, 2), np.nan, np.float32)), "TIFF").max() == 0


def test_largest_floats_do_not_overflow() -> None:
    values = np.array([[-3e38, 0, 3e38]], np.float32)
    assert round_trip(Image.fromarray(values), "TIFF")[0, :, 0].tolist() == [0, 128, 255]


def test_transparency_is_blended_with_white() -> None:
    image = Image.new("RGBA", (3, 1))
    image.putdata([(255, 0, 0, 255), (255, 0, 0, 0), (0, 0, 0, 128)])
    assert round_trip(image, "PNG")[0].tolist() == [[255, 0, 0], [255, 255, 255], [127, 127, 127]]
    assert round_trip(Image.new("LA", (1, 1), (0, 0)), "PNG")[0, 0].tolist() == [255, 255, 255]


def test_palette_with_and_without_transparency() -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([255, 0, 0, 0, 0, 255])
    image.putdata([0, 1])
    assert round_trip(image, "PNG")[0].tolist() == [[255, 0, 0], [0, 0, 255]]
    assert round_trip(image, "PNG", transparency=1)[0].tolist() == [[255, 0, 0], [255, 255, 255]]
    assert round_trip(image, "GIF", transparency=0)[0].tolist() == [[255, 255, 255], [0, 0, 255]]


def test_cmyk_and_lab() -> None:
    red = Image.new("RGB", (16, 16), (250, 10, 10))
    for format in ("JPEG", "TIFF"):
        assert np.abs(round_trip(red.convert("CMYK"), format) - [250, 10, 10]).max() < 12
    from PIL import ImageCms

    lab = ImageCms.profileToProfile(
        red, ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), outputMode="LAB"
    )
    assert lab is not None
    assert np.abs(round_trip(lab, "TIFF") - [250, 10, 10]).max() < 12


@pytest.mark.parametrize("format", ["GIF", "WEBP", "PNG", "TIFF"])
def test_animations_give_their_first_frame(format: str) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "lime", "blue")]
    pixels = round_trip(frames[0], format, save_all=True, append_images=frames[1:])
    assert np.abs(pixels - [255, 0, 0]).max() < 8


@pytest.mark.parametrize("format", ["JPEG", "PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation(format: str, orientation: int) -> None:
    upright = gradient((64, 32))
    # a camera stores the inverse of the transposition that the tag asks for
    turn = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}  # Image.Transpose numbers of the inverses
    stored = upright if orientation == 1 else upright.transpose(Image.Transpose(turn[orientation]))
    exif = Image.Exif()
    exif[0x0112] = orientation
    pixels = round_trip(stored, format, exif=exif)
    assert pixels.shape == (32, 64, 3)
    assert np.abs(pixels - np.asarray(upright)).mean() < 8


def test_damaged_exif_is_ignored() -> None:
    pixels = round_trip(gradient(), "JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\xff" + bytes(20))
    assert pixels.shape == (48, 64, 3)


def test_jpeg_is_decoded_at_least_at_the_requested_size() -> None:
    image = gradient((1600, 1200))
    for size, shape in (
        (None, (1200, 1600)),
        (1200, (1200, 1600)),
        (600, (600, 800)),
        (224, (300, 400)),
        (10, (150, 200)),
    ):
        assert round_trip(image, "JPEG", size=size).shape[:2] == shape
    assert round_trip(image, "PNG", size=10).shape[:2] == (
        1200,
        1600,
    )  # other formats keep their size unless very large
    small = np.asarray(image.reduce(4)).astype(int)
    assert np.abs(round_trip(image, "JPEG", size=224) - small).mean() < 3


def test_very_large_images_are_downscaled_early() -> None:
    image = Image.new("RGBA", (1000, 800), (10, 20, 30, 255))
    decoded = decode_data(encoded(image, "PNG"), 100, large_pixels=1000 * 800 - 1)
    pixels = np.asarray(decoded)
    assert pixels.shape == (200, 250, 3)
    assert pixels[0, 0].tolist() == [10, 20, 30]


def png_header(width: int, height: int) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("side", [2**31 - 1, 50_000, int(MAX_PIXELS**0.5) + 1])
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_decompression_bombs_are_refused_before_decoding(side: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the image was decoded")

    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", refuse)
    with pytest.raises(Image.DecompressionBombError) as caught:
        decode_data(io.BytesIO(png_header(side, side)))
    assert error_reason(caught.value).startswith("suspected decompression bomb")


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_very_large_jpeg_is_decoded_at_reduced_size() -> None:
    """Phones take 100-megapixel photos; JPEG decodes them at reduced size, so they are no decompression bomb."""
    file = io.BytesIO()
    Image.new("L", (12_000, 9_000), 77).save(file, "JPEG")
    file.seek(0)
    image = decode_data(file, 224)
    assert min(image.size) >= 224
    assert image.getpixel((5, 5)) == (77, 77, 77)


@pytest.mark.parametrize("size", [(1, 1), (1, 60_000), (60_000, 1), (2, 2)])
@pytest.mark.parametrize("format", ["PNG", "JPEG", "TIFF"])
def test_extreme_sizes(size: tuple[int, int], format: str) -> None:
    assert round_trip(Image.new("RGB", size, (9, 9, 9)), format, size=224).shape == (size[1], size[0], 3)


def test_wrong_extension(tmp_path: Path) -> None:
    gradient().save(tmp_path / "a.jpg", "PNG")
    gradient().save(tmp_path / "b.txt", "JPEG")
    gradient().save(tmp_path / "c", "GIF")
    assert [decode(item).size for item in Catalog.from_source(tmp_path)] == [(64, 48)] * 3


def test_16_bits_need_little_memory() -> None:
    file = encoded(Image.fromarray(np.zeros((3000, 2000), np.uint16)), "PNG")
    tracemalloc.start()
    decode_data(file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * 6_000_000  # bytes per pixel: 2 of the file, 1 of the result, 1 of the image, and one block


def test_eps_is_not_executed() -> None:
    file = io.BytesIO()
    gradient().save(file, "EPS")
    file.seek(0)
    with pytest.raises(ValueError, match="are not executed"):
        decode_data(file)


def seed_files() -> dict[str, bytes]:
    files = {}
    for format, options in (
        ("JPEG", {}),
        ("JPEG", {"progressive": True}),
        ("PNG", {}),
        ("GIF", {}),
        ("WEBP", {}),
        ("TIFF", {"compression": "tiff_lzw"}),
    ):
        file = io.BytesIO()
        gradient().save(file, format, **options)
        files[format + "-".join(options)] = file.getvalue()
    return files


@pytest.mark.parametrize("name", sorted(seed_files()))
@pytest.mark.filterwarnings("ignore")
def test_corrupted_files_give_an_image_or_a_reason(name: str) -> None:
    data = seed_files()[name]
    random = np.random.default_rng(sum(name.encode()))
    failed = 0
    for trial in range(150):
        broken = bytearray(data)
        if trial % 3 == 0:
            broken = broken[: random.integers(0, len(data))]
        else:
            for position in random.integers(0, len(data), 1 + trial % 20):
                broken[position] ^= 1 << random.integers(0, 8)
        try:
            image = decode_data(io.BytesIO(bytes(broken)), 16)
        except Exception as error:
            text = error_reason(error)
            assert text.strip()
            assert "\n" not in text
            assert len(text) <= 320
            failed += 1
        else:
            assert image.mode == "RGB"
            assert image.width * image.height > 0
    assert failed > 0


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "the file is empty"),
        (b"hello, this is text\n" * 5, "not an image"),
        (b"\x89PNG\r\n\x1a\n", "not an image"),
        (b'{"a": 1}', "not an image"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not an image"),
        (b"<!DOCTYPE html><script>alert(1)</script>", "not an image"),
        (b"GIF89a" + bytes(7), "not an image"),
        (seed_files()["JPEG"][:-200], "damaged: image file is truncated"),
        (seed_files()["PNG"][:100], "damaged:"),
        (b"P6 4x 4 255 " + bytes(48), "damaged:"),
    ],
)
def test_reasons_of_unreadable_files(tmp_path: Path, content: bytes, expected: str) -> None:
    (tmp_path / "a.jpg").write_bytes(content)
    with pytest.raises(Exception) as caught:  # noqa: PT011
        decode(Catalog.from_source(tmp_path)[0])
    assert error_reason(caught.value).startswith(expected)


def test_reason_of_a_deleted_file(tmp_path: Path) -> None:
    gradient().save(tmp_path / "a.png")
    catalog = Catalog.from_source(tmp_path)
    os.unlink(tmp_path / "a.png")
    with pytest.raises(FileNotFoundError) as caught:
        decode(catalog[0])
    assert error_reason(caught.value) == "cannot be read: No such file or directory"

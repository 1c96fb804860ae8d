from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter

from cgmcr2.explorer.duplicates import Quality, best_image, image_quality
from cgmcr2.images import Catalog


def write_variants(folder: Path) -> list[str]:
    """A detailed image, blurred and reduced copies of it, and a damaged file; returns their names."""
    folder.mkdir()
    noise = np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8)
    image = Image.fromarray(noise).resize((800, 600), Image.Resampling.BICUBIC)
    image.save(folder / "a.png")
    image.filter(ImageFilter.GaussianBlur(6)).save(folder / "b.png")
    image.resize((80, 60)).save(folder / "c.png")
    image.resize((600, 450), Image.Resampling.LANCZOS).save(folder / "d.png")
    (folder / "e.png").write_bytes(b"no image")
    return sorted(file.name for file in folder.iterdir())


def test_the_sharp_and_large_image_is_kept(tmp_path: Path) -> None:
    names = write_variants(tmp_path / "photos")
    qualities = [image_quality(item) for item in Catalog.from_source(tmp_path / "photos")]
    assert [quality.width for quality in qualities] == [800, 800, 80, 600, 0]
    assert names[best_image(qualities)] == "a.png"
    assert best_image(qualities[1:]) == 2  # the reduced copy rather than the blurred or the tiny one
    sharp, blurred, _, reduced, damaged = (quality.sharpness for quality in qualities)
    assert blurred < 0.5 * sharp
    assert abs(reduced - sharp) < 0.1 * sharp
    assert damaged == 0


def test_a_rotated_photo_has_the_size_that_people_see(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # rotated by 90 degrees
    Image.new("RGB", (60, 40)).save(tmp_path / "a.jpg", exif=exif)
    quality = image_quality(Catalog.from_source(tmp_path)[0])
    assert (quality.width, quality.height) == (40, 60)


def test_unreadable_images_are_never_chosen() -> None:
    assert best_image([Quality(), Quality(10, 10, 0.0)]) == 1

"""A run that is open in the explorer, for tests in the browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cgmcr2 import CgMCR2
from cgmcr2.runs import fit_images

from ..colours import QUICK


@pytest.fixture(scope="session")
def explorer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of the explorer of a run on 60 images in 3 clusters; the last two are copies of others.

    Tests undo their edits.
    """
    pytest.importorskip("starlette", reason="the explorer needs cgmcr2[web]")
    folder = tmp_path_factory.mktemp("explorer")
    write_blends(folder / "photos", 60)
    for copy, original in (("58", "01"), ("59", "02")):
        shutil.copyfile(folder / "photos" / f"{original}.png", folder / "photos" / f"{copy}.png")
    fit_images(CgMCR2(3, settings=QUICK), folder / "photos", folder / "run", encoder="colours")

    from cgmcr2.explorer.session import Session

    from ..serving import serve

    with Session(folder / "run") as session, serve(session) as url:
        yield url


def write_blends(folder: Path, count: int) -> None:
    """Write noisy reddish, greenish and bluish images to a new folder; every fifth is a blend of two colours."""
    folder.mkdir()
    noise = np.random.default_rng(0)
    for number in range(count):
        pixels = noise.integers(0, 100, (4, 4, 3))
        pixels[..., number % 3] += 100
        if number % 5 == 0:
            pixels[..., (number + 1) % 3] += 80
        image = Image.fromarray(pixels.astype(np.uint8)).resize((32, 32), Image.Resampling.NEAREST)
        image.save(folder / f"{number:02}.png")

"""The bytes of a shard; tests/features/test_extract.py covers batches, errors and exhausted memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image

from cgmcr2.encoders import load_encoder
from cgmcr2.features.coverage import Coverage
from cgmcr2.features.manifest import Manifest
from cgmcr2.features.shard_writer import ShardWriter
from cgmcr2.images import Catalog


def test_bytes_do_not_depend_on_the_number_of_threads(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for number in range(11):
        pixels = np.random.default_rng(number).integers(0, 256, (64, 64, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / "photos" / f"{number:02}.png")
    catalog, encoder = Catalog.from_source(tmp_path / "photos"), load_encoder("bundled?size=64")
    manifest = Manifest(encoder.name, encoder.fingerprint, "", encoder.dim, "float32", 6)
    threads = torch.get_num_threads()
    files = []
    try:
        for number in (1, 2):
            store = tmp_path / str(number)
            store.mkdir()
            torch.set_num_threads(number)
            writer = ShardWriter(store, manifest, catalog)
            assert writer.write(encoder, Coverage(store, catalog).plan(6), num_workers=number) == 11
            files.append({path.name: path.read_bytes() for path in store.iterdir()})
    finally:
        torch.set_num_threads(threads)
    assert len(files[0]) == 4
    assert files[0] == files[1]

"""Several encoders as one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cgmcr2.encoders import load_encoder
from cgmcr2.features import FeatureStore, extract
from cgmcr2.images import Catalog

from ..colours import write_photos

NAME = "bundled?size=32 + bundled?size=64"


def test_features_are_side_by_side() -> None:
    combined = load_encoder(NAME)
    parts = [load_encoder(name) for name in NAME.split(" + ")]
    image = Image.effect_noise((60, 50), 80).convert("RGB")
    features = combined.encode(np.stack([combined.preprocess(image)] * 2))
    expected = np.concatenate([part.encode(np.stack([part.preprocess(image)] * 2)) for part in parts], axis=1)
    assert np.array_equal(features, expected)
    assert combined.fingerprint == " + ".join(part.fingerprint for part in parts)
    assert load_encoder(combined.name).fingerprint == combined.fingerprint


def test_the_store_knows_the_spaces(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", 3)
    extract(Catalog.from_source(photos), load_encoder(NAME), tmp_path / "store")
    assert FeatureStore.open(tmp_path / "store").spaces == (1280, 1280)


def test_the_same_encoder_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="not all different; give each of them once"):
        load_encoder("bundled?size=32 + bundled?size=32")

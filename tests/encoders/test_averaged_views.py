from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from cgmcr2.encoders import Encoder, load_encoder, reads_text, register_encoder
from cgmcr2.encoders.augmentation import image_rng, random_view
from cgmcr2.encoders.averaged_views import AveragedViews
from cgmcr2.encoders.registry import _ENTRIES


@pytest.fixture
def means() -> Iterator[None]:
    """An encoder whose features are the mean colour."""

    def factory(scale: float = 1.0) -> SimpleNamespace:
        return SimpleNamespace(
            name="means" if scale == 1 else f"means?scale={scale:g}",
            fingerprint=f"means-{scale:g}",
            dim=3,
            image_size=8,
            preprocess=lambda image: np.asarray(image.resize((8, 8))),
            encode=lambda batch: scale * batch.mean(axis=(1, 2)).astype(np.float32),
        )

    register_encoder("means", factory)
    yield
    del _ENTRIES["means"]


def test_features_are_the_mean_over_the_views(means: None, images: list[Image.Image]) -> None:
    encoder = load_encoder("means", views=3, seed=4)
    assert isinstance(encoder, Encoder)
    assert isinstance(encoder, AveragedViews)
    features = encoder.encode(np.stack([encoder.preprocess(image) for image in images[:2]]))
    for image, row in zip(images, features, strict=False):
        rng = image_rng(image, 4)
        views = [np.asarray(random_view(image, 8, rng)).mean((0, 1)) for _ in range(3)]
        np.testing.assert_allclose(row, np.mean(views, 0), rtol=1e-5)
    assert encoder.image_size >= 8 / 0.08**0.5
    assert not reads_text(encoder)


def test_views_and_seed_change_the_fingerprint_and_the_name_keeps_them(means: None) -> None:
    names = ["means", "means?views=1", "means?views=2", "means?views=2&seed=3", "means?scale=2&views=2"]
    encoders = [load_encoder(name) for name in names]
    assert [encoder.name for encoder in encoders] == names
    assert len({encoder.fingerprint for encoder in encoders}) == len(names)
    assert load_encoder("means", views=0).fingerprint == encoders[0].fingerprint  # no augmentation
    both = load_encoder("means + means?scale=2", views=2)
    assert both.name == "means?views=2 + means?scale=2&views=2"
    image = Image.new("RGB", (9, 9), (90, 30, 60))
    assert both.encode(np.stack([both.preprocess(image)])).shape == (1, 6)


@pytest.mark.parametrize("options", [{"views": -1}, {"views": 1.5}, {"views": "two"}, {"views": 2, "seed": -1}])
def test_wrong_options_are_refused(means: None, options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="augmented views must be an integer of at least"):
        load_encoder("means", **options)


def test_other_shapes_are_refused(means: None) -> None:
    with pytest.raises(ValueError, match=r"shape \(n, 2, ...\), but got \(4, 8, 8, 3\)"):
        load_encoder("means", views=2).encode(np.zeros((4, 8, 8, 3), np.uint8))

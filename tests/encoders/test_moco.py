"""Checkpoints of one random ResNet-18 in every common format."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from cgmcr2.encoders import Encoder, load_encoder
from cgmcr2.encoders.moco import MocoEncoder
from cgmcr2.encoders.resnet import ResNet18

State = dict[str, torch.Tensor]


def random_state(stem: int, seed: int = 0) -> State:
    torch.manual_seed(seed)
    network = ResNet18(stem)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)  # type: ignore[union-attr]
            module.running_var.uniform_(0.5, 2)  # type: ignore[union-attr]
    return network.state_dict()


def prefixed(state: State, prefix: str) -> State:
    return {prefix + name: tensor for name, tensor in state.items()}


def numbered(state: State, stages: tuple[int, ...]) -> State:
    """Rename the tensors as in nn.Sequential(*resnet.children())."""
    names = {"conv1": "0", "bn1": "1"} | {f"layer{i}": str(number) for i, number in enumerate(stages, 1)}
    return {names[name.partition(".")[0]] + "." + name.partition(".")[2]: tensor for name, tensor in state.items()}


CIFAR = random_state(3)
OTHER = random_state(3, seed=1)
FORMATS: dict[str, Callable[[], Any]] = {
    "plain": lambda: CIFAR,
    "torchvision with its classifier": lambda: CIFAR | {"fc.weight": torch.zeros(10, 512), "fc.bias": torch.zeros(10)},
    "MoCo": lambda: {
        "epoch": 200,
        "arch": "resnet18",
        "optimizer": {"state": {}, "param_groups": []},
        "state_dict": prefixed(CIFAR, "module.encoder_q.")
        | prefixed(OTHER, "module.encoder_k.")
        | {"module.queue": torch.zeros(128, 10), "module.encoder_q.fc.0.weight": torch.zeros(512, 512)},
    },
    "MoCo on one GPU": lambda: {"state_dict": prefixed(CIFAR, "encoder_q.") | prefixed(OTHER, "encoder_k.")},
    "encoder.": lambda: {"model": prefixed(CIFAR, "encoder.") | {"head.0.weight": torch.zeros(2, 2)}},
    "backbone. with a momentum copy": lambda: {
        "state_dict": prefixed(CIFAR, "backbone.") | prefixed(OTHER, "momentum_backbone.")
    },
    "data parallel": lambda: prefixed(CIFAR, "module."),
    "numbered": lambda: prefixed(numbered(CIFAR, (3, 4, 5, 6)), "backbone."),
    "numbered with max-pooling": lambda: prefixed(numbered(CIFAR, (4, 5, 6, 7)), "encoder.f."),
    "shortcut": lambda: {name.replace("downsample", "shortcut"): tensor for name, tensor in CIFAR.items()},
    "with other entries": lambda: {
        "epoch": torch.tensor(3),
        "args": argparse.Namespace(lr=0.03),
        "state_dict": CIFAR,
    },
    "without counters": lambda: {name: t for name, t in CIFAR.items() if not name.endswith("num_batches_tracked")},
}


def save(content: Any, path: Path) -> Path:
    torch.save(content, path)
    return path


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(CIFAR, tmp_path_factory.mktemp("moco") / "resnet18.pth")


@pytest.fixture(scope="module")
def reference(plain: Path) -> MocoEncoder:
    return MocoEncoder(plain, device="cpu")


@pytest.fixture(scope="module")
def reference_features(reference: MocoEncoder, images: list[Image.Image]) -> np.ndarray[Any, Any]:
    return reference.encode(np.stack([reference.preprocess(image) for image in images[:2]]))


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_gives_the_same_encoder(
    format: str,
    reference: MocoEncoder,
    reference_features: np.ndarray[Any, Any],
    tmp_path: Path,
    images: list[Image.Image],
) -> None:
    encoder = MocoEncoder(save(FORMATS[format](), tmp_path / "checkpoint.tar"), device="cpu")
    assert encoder.fingerprint == reference.fingerprint
    batch = np.stack([encoder.preprocess(image) for image in images[:2]])
    np.testing.assert_array_equal(encoder.encode(batch), reference_features)


def test_safetensors(plain: Path, tmp_path: Path) -> None:
    save_file(CIFAR, tmp_path / "a.safetensors")
    assert MocoEncoder(tmp_path / "a.safetensors").fingerprint == MocoEncoder(plain).fingerprint


def test_features_equal_those_of_the_network(plain: Path, images: list[Image.Image]) -> None:
    encoder = MocoEncoder(plain, device="cpu")
    assert isinstance(encoder, Encoder)
    assert (encoder.dim, encoder.image_size) == (512, 32)
    image = images[3].resize((32, 32))
    network = ResNet18(3).eval()
    network.load_state_dict(CIFAR)
    pixels = torch.tensor(np.asarray(image) / 255, dtype=torch.float32).permute(2, 0, 1)
    mean, std = torch.tensor([0.4914, 0.4822, 0.4465]), torch.tensor([0.2023, 0.1994, 0.2010])
    with torch.inference_mode():
        expected = network(((pixels - mean[:, None, None]) / std[:, None, None])[None]).numpy()
    np.testing.assert_allclose(encoder.encode(encoder.preprocess(image)[None]), expected, rtol=1e-4, atol=1e-5)


def test_imagenet_variant_uses_224_pixels(tmp_path: Path, images: list[Image.Image]) -> None:
    encoder = MocoEncoder(save(random_state(7), tmp_path / "a.pth"), device="cpu")
    assert encoder.image_size == 224
    assert encoder.preprocess(images[0]).shape == (224, 224, 3)
    features = encoder.encode(np.stack([encoder.preprocess(image) for image in images[:2]]))
    assert features.shape == (2, 512)
    assert not np.allclose(features[0], features[1])


def test_features_do_not_depend_on_the_batch(plain: Path, images: list[Image.Image]) -> None:
    encoder = load_encoder(plain, views=2, device="cpu")
    batch = np.stack([encoder.preprocess(image) for image in images[:3]])
    together = encoder.encode(batch)
    alone = np.concatenate([encoder.encode(batch[i : i + 1]) for i in range(3)])
    np.testing.assert_allclose(alone, together, rtol=1e-5, atol=1e-6)


def test_export_module_gives_the_features(plain: Path, images: list[Image.Image]) -> None:
    encoder = MocoEncoder(plain, device="cpu")
    batch = np.stack([encoder.preprocess(image) for image in images[:2]])
    module = encoder.export_module()
    assert module is not None
    np.testing.assert_allclose(module(torch.from_numpy(batch)), encoder.encode(batch), rtol=1e-4, atol=1e-5)


def test_name_loads_the_same_encoder(plain: Path) -> None:
    encoder = load_encoder(f"moco:{plain}", views=2, seed=5)
    assert encoder.name == f"moco:{plain.resolve()}?views=2&seed=5"
    assert load_encoder(encoder.name).fingerprint == encoder.fingerprint
    assert load_encoder(plain).name == f"moco:{plain.resolve()}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"weights": 3}, "must contain named tensors, .* but contains weights"),
        ([1, 2], "but contains list"),
        ({"a": torch.zeros(1)}, r"must contain one ResNet-18 \(.*\), but contains a\."),
        (prefixed(CIFAR, "one.") | prefixed(OTHER, "two."), r"contains several networks \(one\., two\.\)"),
        ({k: v for k, v in CIFAR.items() if "layer3" not in k}, r"lacks layer3\.0\.conv1\.weight, .* 22 more"),
        ({k: v for k, v in CIFAR.items() if k != "conv1.weight"}, r"lacks conv1\.weight; it contains bn1"),
        (CIFAR | {"layer4.2.conv1.weight": torch.zeros(1)}, r"has additional tensors layer4\.2\.conv1"),
        (CIFAR | {"layer1.0.conv3.weight": torch.zeros(1)}, "contains a ResNet-50 or deeper"),
        (CIFAR | {"conv1.weight": torch.zeros(64, 3, 5, 5)}, "7x7, or 3x3 for CIFAR, got 5x5"),
        (CIFAR | {"layer1.0.bn1.weight": torch.zeros(7)}, r"has wrong shapes for layer1\.0\.bn1\.weight"),
        (CIFAR | {"date": datetime.timedelta(1)}, r"cannot be loaded .*torch.save"),
    ],
)
def test_invalid_checkpoints(content: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        MocoEncoder(save(content, tmp_path / "bad.pth"))


def test_files_that_are_not_checkpoints(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"There is no checkpoint .*none\.pth"):
        MocoEncoder(tmp_path / "none.pth")
    (tmp_path / "text.pth").write_text("hello")
    with pytest.raises(ValueError, match="cannot be loaded"):
        MocoEncoder(tmp_path / "text.pth")
    (tmp_path / "empty.pth").touch()
    with pytest.raises(ValueError, match="cannot be loaded"):
        MocoEncoder(tmp_path / "empty.pth")

"""From images to an encoder that other commands accept."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from PIL import Image

from cgmcr2.encoders import load_encoder, pretrained
from cgmcr2.encoders.pretrained import PretrainedConfig, PretrainedEncoder, save_pretrained
from cgmcr2.encoders.resnet import ResNet18
from cgmcr2.images import Catalog
from cgmcr2.pretrain import pretrain_images
from cgmcr2.pretrain.images import cache_path, choose_size, load_images

from .conftest import Small, small_images

pytestmark = pytest.mark.filterwarnings("ignore:.*too few")


@pytest.fixture(scope="module")
def npz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("images") / "small.npz"
    np.savez(path, images=small_images(30, size=20))
    return path


def test_images_in_memory_and_in_a_file_are_equal(npz: Path, tmp_path: Path) -> None:
    catalog = Catalog.from_source(npz)
    in_memory = load_images(catalog, 16, tmp_path)
    in_file = load_images(catalog, 16, tmp_path, memory=1000)
    assert in_memory.shape == (30, 16, 16, 3)
    assert isinstance(in_file, np.memmap)
    np.testing.assert_array_equal(in_memory, in_file)
    assert cache_path(tmp_path, catalog, 16).exists()
    np.testing.assert_array_equal(load_images(catalog, 20, tmp_path), small_images(30, size=20))


def test_unreadable_images_are_left_out(tmp_path: Path, npz: Path) -> None:
    for number, image in enumerate(small_images(3, size=70)):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
    (tmp_path / "0.png").write_bytes(b"broken")
    catalog = Catalog.from_source(tmp_path)
    assert choose_size(catalog) == 224
    assert choose_size(Catalog.from_source(npz)) == 32
    cache = tmp_path / ".cache"
    for memory in (0, 1 << 20):
        with pytest.warns(UserWarning, match=r"1 of 3 images cannot be read and are left out \(0.png: "):
            assert len(load_images(catalog, 16, cache, memory=memory)) == 2
    for path in tmp_path.glob("*.png"):
        path.write_bytes(b"broken")
    with pytest.raises(ValueError, match="None of the 3 files"):
        choose_size(Catalog.from_source(tmp_path))


def test_a_custom_backbone(npz: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    overrides = {"size": 16, "epochs": 1}
    trained = pretrain_images(npz, tmp_path, "moco-v2", overrides, backbone=Small(), device="cpu")
    assert trained is not None
    with pytest.raises(ValueError, match=r"is a Small; load it with PretrainedEncoder\(folder, backbone=...\)"):
        load_encoder(tmp_path)
    encoder = PretrainedEncoder(tmp_path, backbone=Small(), device="cpu")
    batch = small_images(3)
    features = encoder.encode(batch)
    mean, std = torch.tensor(trained.augmentation.mean), torch.tensor(trained.augmentation.std)
    with torch.no_grad():
        expected = trained.backbone(((torch.from_numpy(batch) / 255 - mean) / std).permute(0, 3, 1, 2))
    np.testing.assert_allclose(features, expected, rtol=1e-4, atol=1e-5)


def test_damaged_weights_are_one_sentence(npz: Path, tmp_path: Path) -> None:
    pretrain_images(npz, tmp_path, "moco-v2", {"size": 16, "epochs": 1, "width": 2}, device="cpu")
    encoder = load_encoder(tmp_path, device="cpu")
    assert (encoder.dim, encoder.image_size, encoder.name) == (16, 16, str(tmp_path.resolve()))
    assert not (tmp_path / "checkpoint.safetensors").exists()
    (tmp_path / "encoder.safetensors").write_bytes(b"rubbish")
    with pytest.raises(ValueError, match="does not hold the weights of the encoder"):
        load_encoder(tmp_path)


def test_an_interruption_between_weights_and_configuration_is_resumed(
    npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = (npz, tmp_path, "moco-v2", {"size": 16, "epochs": 1, "width": 2})
    with monkeypatch.context() as patch:
        patch.setattr(pretrained, "write_json", Mock(side_effect=OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            pretrain_images(*arguments, device="cpu")
    assert pretrain_images(*arguments, device="cpu") is not None
    assert load_encoder(tmp_path, device="cpu").dim == 16


def test_an_encoder_that_is_not_finite_is_not_written(tmp_path: Path) -> None:
    network = ResNet18(3, 2)
    network.bn1.running_mean[0] = torch.nan  # type: ignore[index]
    config = PretrainedConfig("ResNet18", 16, 16, 3, 2, (0, 0, 0), (1, 1, 1), {})
    with pytest.raises(ValueError, match=r"values that are not finite \(bn1.running_mean\); delete .* lower learning"):
        save_pretrained(tmp_path, network, config)
    assert not list(tmp_path.iterdir())


def test_a_folder_with_other_files_is_refused(npz: Path, tmp_path: Path) -> None:
    (tmp_path / "photo.png").touch()
    with pytest.raises(
        ValueError, match=r"contains files that do not belong to a training run \(photo.png\); choose a new folder"
    ):
        pretrain_images(npz, tmp_path, "moco-v2", {"size": 16, "width": 8, "epochs": 1})

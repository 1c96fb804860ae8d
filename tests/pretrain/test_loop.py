"""The loop: resuming bit for bit, guards, and the settings."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sklearn.exceptions import ConvergenceWarning

from cgmcr2.encoders.preprocessing import CIFAR_MEAN, CIFAR_STD
from cgmcr2.encoders.resnet import ResNet18
from cgmcr2.pretrain import Pretrained, pretrain, resolve
from cgmcr2.pretrain.loop import COLLAPSE_STEPS, build, memory_format, train_method
from cgmcr2.pretrain.moco_v2 import MocoV2
from cgmcr2.pretrain.state import CHECKPOINT

from .conftest import Small, small_images

Images = np.ndarray[Any, Any]
SHORT = {"size": 16, "epochs": 3, "batch_size": 16}
pytestmark = pytest.mark.filterwarnings("ignore:.*too few")


def small(seed: int = 0, dropout: float = 0.0) -> Small:
    torch.manual_seed(seed)
    return Small(dropout)


class Killed(Exception):
    pass


def run(
    images: Images, method: str, folder: Path | None = None, killed_after: int | None = None, dropout: float = 0.0
) -> Pretrained:
    def on_epoch(epoch: int, backbone: torch.nn.Module) -> None:
        if epoch == killed_after:
            raise Killed

    options = {
        "gcc": {"pretext_epochs": 1, "every": 1},
        "imc-swav": {"hidden_dim": 8, "prototypes": 20, "local_views": 1},
    }
    overrides = {**SHORT, **options.get(method, {})}
    return pretrain(
        images,
        method,
        overrides,
        backbone=small(dropout=dropout),
        device="cpu",
        folder=folder,
        on_epoch=on_epoch,
        checkpoint_seconds=0,
    )


@pytest.mark.parametrize(
    ("method", "dropout"),
    [
        ("moco-v2", 0.0),
        ("simclr-tcr", 0.0),
        ("cc", 0.0),
        ("gcc", 0.0),
        ("imc-swav", 0.0),
        ("cc", 0.5),
        ("imc-swav", 0.5),
    ],
)
def test_a_killed_run_resumes_bit_for_bit(images: Images, method: str, dropout: float, tmp_path: Path) -> None:
    whole = run(images, method, tmp_path / "whole", dropout=dropout)
    (tmp_path / "killed").mkdir()
    with pytest.raises(Killed):
        run(images, method, tmp_path / "killed", killed_after=2, dropout=dropout)
    lines = (tmp_path / "killed" / "metrics.jsonl").read_text().splitlines()
    assert 0 < len(lines) < len(whole.history)
    resumed = run(images, method, tmp_path / "killed", dropout=dropout)
    assert resumed.history == whole.history
    assert (tmp_path / "killed" / "metrics.jsonl").read_bytes() == (tmp_path / "whole" / "metrics.jsonl").read_bytes()
    for name, tensor in whole.backbone.state_dict().items():
        assert torch.equal(tensor, resumed.backbone.state_dict()[name]), name
    expected, state = (load_file(tmp_path / name / CHECKPOINT) for name in ("whole", "killed"))
    assert expected.keys() == state.keys()
    for name, tensor in expected.items():  # also the queue, the momentum encoder and the optimizer
        assert torch.equal(tensor, state[name]), name


def test_training_lowers_the_loss_and_leaves_the_random_state_alone(images: Images) -> None:
    state = torch.random.get_rng_state()
    before = small().conv.weight.clone()
    torch.random.set_rng_state(state)
    network = small(dropout=0.1)
    torch.random.set_rng_state(state)
    trained = pretrain(images, "simclr-tcr", {**SHORT, "epochs": 12}, backbone=network, device="cpu")
    assert torch.equal(torch.random.get_rng_state(), state)
    losses = [record["loss"] for record in trained.history]
    assert np.mean(losses[-4:]) < np.mean(losses[:4]) - 1
    assert not torch.equal(before, trained.backbone.conv.weight)  # type: ignore[arg-type,union-attr]
    assert trained.dim == 8
    assert trained.finished
    assert not trained.backbone.training


def test_other_settings_or_images_are_refused(images: Images, tmp_path: Path) -> None:
    run(images, "moco-v2", tmp_path)
    for other, overrides, text in (
        (images, {**SHORT, "lr": 1.0}, "lr was 0.03, is 1.0 now"),
        (images[::-1], SHORT, "data was"),
    ):
        with pytest.raises(ValueError, match=text):
            pretrain(other, "moco-v2", overrides, backbone=small(), device="cpu", folder=tmp_path)


def test_non_finite_steps_end_the_training(images: Images, tmp_path: Path) -> None:
    network = small()
    with torch.no_grad():
        network.conv.weight[0, 0, 0, 0] = torch.nan
    with pytest.raises(
        FloatingPointError, match=r"stopped at step 4: .* 5 consecutive steps .* lower the learning rate"
    ):
        pretrain(images, "simclr-tcr", {**SHORT, "epochs": 9}, backbone=network, device="cpu", folder=tmp_path)


def test_a_skipped_step_leaves_the_running_statistics_finite(images: Images) -> None:
    network, calls = small(), 0

    def break_once(module: torch.nn.Module, inputs: Any, output: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += module.training
        return output * torch.nan if module.training and calls == 5 else output

    network.conv.register_forward_hook(break_once)
    trained = pretrain(images, "simclr-tcr", SHORT, backbone=network, device="cpu")
    assert [record["finite"] for record in trained.history] == [step != 4 for step in range(len(trained.history))]
    assert len(trained.history) > 6
    assert all(tensor.isfinite().all() for tensor in trained.model.state_dict().values())


def test_errors_name_the_stage(images: Images) -> None:
    network = small()
    with torch.no_grad():
        network.conv.weight[0, 0, 0, 0] = torch.nan
    model, settings = build("simclr-tcr", {**SHORT, "epochs": 9}, len(images), 0, network)
    with pytest.raises(FloatingPointError, match="Self-labelling stopped at step 4"):
        train_method(model, images, settings, device="cpu", description="Self-labelling")


def test_the_encoder_has_the_statistics_of_the_images_if_the_views_are_smaller(images: Images) -> None:
    trained = run(images, "imc-swav", dropout=0.5)
    state = torch.random.get_rng_state()
    small()  # seeds the global generator, as ``run``, which leaves it alone otherwise
    assert torch.equal(torch.random.get_rng_state(), state)
    mean, std = (torch.tensor(values)[:, None, None] for values in (CIFAR_MEAN, CIFAR_STD))
    pixels = (torch.from_numpy(images).permute(0, 3, 1, 2) / 255 - mean) / std
    with torch.no_grad():
        outputs = trained.backbone.conv(pixels)  # type: ignore[operator]
    torch.testing.assert_close(trained.backbone.bn.running_mean, outputs.mean((0, 2, 3)), rtol=1e-4, atol=1e-5)  # type: ignore[union-attr]
    assert trained.backbone.bn.momentum == 0.1  # type: ignore[union-attr]


def test_numpy_numbers_are_numbers(images: Images, tmp_path: Path) -> None:
    overrides = {**SHORT, "epochs": np.float32(1), "batch_size": np.int64(16)}
    trained = pretrain(images, "moco-v2", overrides, backbone=small(), device="cpu", seed=np.int64(3), folder=tmp_path)
    assert trained.finished
    assert (tmp_path / CHECKPOINT).exists()
    assert pretrain(list(images), "moco-v2", {**SHORT, "epochs": 1}, backbone=small(), seed=3, folder=tmp_path).finished


class Constant(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.bias.expand(len(x), -1)


def test_collapse_is_reported_once(images: Images) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        overrides = {**SHORT, "batch_size": 50, "epochs": COLLAPSE_STEPS + 10, "lr": 1e-6}
        trained = pretrain(images, "moco-v2", overrides, backbone=Constant(), device="cpu")
    messages = [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]
    assert len(messages) == 1
    assert "has collapsed: its spread is" in messages[0]
    assert trained.collapsed


def test_few_images_and_wrong_shapes() -> None:
    with pytest.warns(UserWarning, match="40 images are too few"):
        pretrain(small_images(40), "moco-v2", {**SHORT, "epochs": 1}, backbone=small(), device="cpu")
    with pytest.raises(ValueError, match=r"uint8 of shape \(n, 16, 16, 3\), but are uint8 of shape \(4, 8, 8, 3\)"):
        pretrain(small_images(4, size=8), "moco-v2", SHORT, backbone=small())
    with pytest.raises(ValueError, match=r"are uint8 of shape \(4, 3, 16, 16\); move the channels last with images.tr"):
        pretrain(small_images(4).transpose(0, 3, 1, 2), "moco-v2", backbone=small())
    with pytest.raises(ValueError, match="images must have one size, but theirs differ"):
        pretrain([small_images(1)[0], small_images(1, size=8)[0]], "moco-v2", backbone=small())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 2 images, but got 1"):
        pretrain(small_images(1), "moco-v2", SHORT, backbone=small())
    with pytest.raises(
        ValueError, match=r"must return features \(n, D\), but for 2 images it returned \(2, 8, 16, 16\)"
    ):
        pretrain(small_images(4), "moco-v2", SHORT, backbone=torch.nn.Conv2d(3, 8, 1))


@pytest.mark.parametrize("value", [{"epochs": 0}, {"size": 4}, {"lr": -1}, {"optimizer": "lion"}, {"batch_size": 1}])
def test_wrong_settings_are_one_sentence(value: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=rf"{next(iter(value))} must be .*, but is"):
        resolve("moco-v2", value)


@pytest.mark.parametrize(
    "value",
    [{"queue": 2.5}, {"batch_size": float("inf")}, {"symmetric": 1}, {"lr": "fast"}, {"optimizer": 3}, {"lr": True}],
)
def test_wrong_types_are_one_sentence(value: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=rf"{next(iter(value))} must be .*, but is"):
        resolve("moco-v2", value)


def test_unknown_methods() -> None:
    with pytest.raises(ValueError, match="no pretraining method 'byol'; choose from moco-v2, simclr-tcr"):
        resolve("byol")


def test_narrow_convolutions_are_not_trained_with_channels_last() -> None:
    """Torch's CPU kernels corrupt memory there."""
    assert memory_format(MocoV2(ResNet18(3, 8), 64, 9)) == torch.channels_last
    assert memory_format(MocoV2(ResNet18(3, 4), 32, 9)) == torch.contiguous_format


def test_metrics_hold_the_terms(images: Images, tmp_path: Path) -> None:
    run(images, "simclr-tcr", tmp_path)
    record = json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[-1])
    assert record["loss"] == pytest.approx(record["rate"] + record["alignment"], abs=1e-4)
    assert {"step", "epoch", "lr", "gradient", "spread", "finite"} <= set(record)


def test_the_views_of_an_image_differ_and_change_with_the_step(images: Images) -> None:
    network, seen = small(), []
    network.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].clone()))
    pretrain(images, "simclr-tcr", {**SHORT, "batch_size": 50, "epochs": 2}, backbone=network, device="cpu")
    first, second = (x for x in seen if len(x) == 100)  # two views of 50 images in each of two steps
    assert not torch.equal(first[:50], first[50:])
    assert not torch.equal(first[:50], second[:50])

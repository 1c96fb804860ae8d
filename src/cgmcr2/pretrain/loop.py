"""The training loop of all self-supervised methods."""

from __future__ import annotations

import copy
import dataclasses
import os
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xxhash
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor, nn

from cgmcr2._device import WIDE, autocast, choose_device, choose_precision
from cgmcr2._progress import progress_bar
from cgmcr2._random import mix, seed_from, seeded
from cgmcr2.distributed import ONE_PROCESS, Group, share_statistics
from cgmcr2.encoders.resnet import ResNet18
from cgmcr2.training.batches import Batches, steps_per_epoch
from cgmcr2.training.interrupt import Interrupt
from cgmcr2.training.log import MetricsFile
from cgmcr2.training.state_file import StateFiles

from .augment import Augmentation, default_augmentation, draw
from .images import Images, check_images, check_number
from .method import Batch, Method
from .registry import method_class, resolve
from .settings import Settings
from .state import PretrainState
from .statistics import recalibrate, restore, running_statistics
from .step import Record, update

OnEpoch = Callable[[int, nn.Module], None]

CHECKPOINT_SECONDS = 60.0
MAX_SKIPPED = 5  # consecutive non-finite steps that end training
COLLAPSED = 0.05  # spread of a collapsed embedding; trained ones have 0.5 and more
COLLAPSE_STEPS = 100  # steps over which the spread is averaged, and before which no warning is given


@dataclasses.dataclass
class Pretrained:
    """A trained method and its backbone, in evaluation mode, and the settings needed to use them."""

    model: Method
    backbone: nn.Module
    dim: int  # number of features
    settings: Settings
    augmentation: Augmentation  # of the training; its mean and std normalise images
    history: list[Record]
    finished: bool  # False if Ctrl-C ended the training early
    collapsed: bool  # all images have nearly the same embedding


def pretrain(
    images: Images,
    method: str = "moco-v2",
    overrides: Mapping[str, Any] | None = None,
    *,
    backbone: nn.Module | None = None,
    seed: int = 0,
    device: str = "auto",
    precision: str = "auto",
    folder: str | os.PathLike[str] | None = None,
    data: str | None = None,
    progress: bool = False,
    on_epoch: OnEpoch | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    group: Group = ONE_PROCESS,
) -> Pretrained:
    """Train an encoder on images without labels.

    Parameters
    ----------
    images : uint8 (n, size, size, 3), in memory or mapped to it
    method : name of the method
    overrides : settings that differ from the defaults of the method, see ``resolve``; the size is that of the images
    backbone : network from images (n, 3, size, size) to features (n, D), trained in place; default: a ResNet-18
    seed : random seed; results are reproducible on the same machine
    device, precision : as for ``CgMCR2``; "auto" uses bfloat16 where the device has it
    folder : where to keep checkpoints and ``metrics.jsonl``; an interrupted run is resumed, bit for bit
    data : name of the images, which a checkpoint must have been trained on; default: a hash of their pixels
    progress : show a progress bar
    on_epoch : called as ``on_epoch(epoch, backbone)`` after each epoch with a copy of the backbone in evaluation mode
    checkpoint_seconds : seconds between checkpoints
    group : the processes that train together, each with the same images; the first one writes to ``folder``
    """
    images, seed = check_images(images), seed_from(seed)
    overrides = {"size": images.shape[1], **(overrides or {})}
    settings, options = resolve(method, overrides)
    check_images(images, settings.size)
    n = check_number(images)
    torch_device = choose_device(device)
    dtype = choose_precision(precision, torch_device, WIDE)
    identity = {
        "settings": {"method": method, **dataclasses.asdict(settings), **options},
        "seed": seed,
        "n": n,
        "backbone": backbone_name(backbone),
        "data": data or xxhash.xxh3_128(np.ascontiguousarray(images).data).hexdigest(),
        "dtype": str(dtype),
    }
    if group.on_first(lambda: identity) != identity:
        raise ValueError("The processes were given different images or settings; give each of them all images.")

    model, _ = build(method, overrides, n, seed, backbone)
    return train_method(
        model,
        images,
        settings,
        identity=identity,
        seed=seed,
        device=device,
        precision=precision,
        folder=None if folder is None else Path(folder),
        progress=progress,
        on_epoch=None if on_epoch is None else lambda epoch: on_epoch(epoch, copy.deepcopy(model.backbone).eval()),
        checkpoint_seconds=checkpoint_seconds,
        group=group,
    )


def build(
    method: str, overrides: Mapping[str, Any] | None, n: int, seed: int, backbone: nn.Module | None = None
) -> tuple[Method, Settings]:
    """The untrained method for n images, and the settings of its training."""
    settings, options = resolve(method, overrides)
    with seeded(seed):
        network = ResNet18(settings.stem, settings.width) if backbone is None else backbone
        create: Callable[..., Method] = method_class(method)
        return create(network, feature_dim(network, settings.size), n, **options), settings


def backbone_name(backbone: nn.Module | None) -> str:
    """The class of the network that is trained; None stands for a ResNet-18."""
    return (ResNet18 if backbone is None else type(backbone)).__name__


def train_method(
    model: Method,
    images: Images,
    settings: Settings,
    *,
    identity: dict[str, Any] | None = None,
    seed: int = 0,
    device: str = "auto",
    precision: str = "auto",
    folder: Path | None = None,
    progress: bool = False,
    on_epoch: Callable[[int], None] | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    group: Group = ONE_PROCESS,
    description: str = "Pretraining",
) -> Pretrained:
    """Train a method in place.

    ``identity`` names the training in checkpoints, ``description`` in the progress bar and in errors. For the rest see
    ``pretrain``.
    """
    n, D = len(images), feature_dim(model.backbone, settings.size)
    torch_device = choose_device(device)
    dtype = choose_precision(precision, torch_device, WIDE)
    layout = memory_format(model)
    model = model.to(torch_device, memory_format=layout).train()  # type: ignore[call-overload]
    share_statistics(model, group)
    state = PretrainState.create(model, settings)
    files = StateFiles(folder, identity or {}, group)
    state.restore(files)
    augmentation = default_augmentation(settings)
    views = model.augmentations(augmentation)
    per_epoch = steps_per_epoch(n, settings.batch_size)
    total = max(1, round(settings.epochs * per_epoch))
    batches = Batches(n, per_epoch, seed)
    metrics = MetricsFile(folder / "metrics.jsonl", state.step, state.metrics) if folder and group.rank == 0 else None
    history = list(metrics.records) if metrics else []
    pending: list[Record] = []
    saved_at = time.monotonic()
    bar = progress_bar(total, desc=description, unit="steps", initial=state.step, enabled=progress and group.rank == 0)

    with Interrupt() as interrupt, bar:
        while state.step < total:
            step = state.step
            batch = Batch(batches.rows(step), step, seed, group)
            lr = settings.learning_rate(step, per_epoch, total)
            part = group.part(len(batch.rows))
            pixel_batches = [
                torch.from_numpy(images[rows[part]]).to(torch_device) for rows in (batch.rows, *model.companions(batch))
            ]
            sources = [
                *((augment, pixel_batches[0]) for augment in views),
                *((views[0], pixels) for pixels in pixel_batches[1:]),
            ]
            numbers = [draw(len(batch.rows), seed=seed, step=step, view=view)[part] for view in range(len(sources))]
            augmented = [
                augment(source, u).contiguous(memory_format=layout)
                for (augment, source), u in zip(sources, numbers, strict=True)
            ]
            statistics = running_statistics(model)
            dropout_seed = mix(mix(mix(seed, step), 0), group.rank)  # one mix more than draw, so another stream
            with seeded(dropout_seed, torch_device), autocast(torch_device, dtype):
                loss = model.loss(augmented, batch)
            record = {"step": step, "epoch": step // per_epoch, "lr": lr, **update(state, loss, lr, batch)}
            pending.append(record)
            history.append(record)
            if not record["finite"]:
                restore(statistics)
            state.skipped = 0 if record["finite"] else state.skipped + 1
            _check_finite(state, settings, dtype, description)
            state.step += 1
            _watch_collapse(state, record["spread"])
            bar.set_postfix(loss=_text(record["loss"]), spread=_text(record["spread"]))
            bar.update()

            if on_epoch and state.step % per_epoch == 0:
                on_epoch(state.step // per_epoch)
            stop = group.any(state.step == total or interrupt.requested)
            if stop or time.monotonic() - saved_at > checkpoint_seconds:
                if metrics:
                    metrics.append(pending)
                    state.metrics = metrics.digest
                pending = []
                state.save(files)
                saved_at = time.monotonic()
            if stop:
                break

    finished, collapsed = state.step == total, state.spread < COLLAPSED
    if finished and any(view.size != settings.size for view in views):
        recalibrate(model, images, settings, seed, group)
    model.eval()
    return Pretrained(model, model.backbone, D, settings, augmentation, history, finished, collapsed)


def memory_format(module: nn.Module) -> torch.memory_format:
    """Channels last, which is faster, unless a convolution has a number of channels that is not a multiple of 8.

    With channels last and less than 8 channels, the CPU kernels of torch 2.13 corrupt memory in the backward pass.
    """
    convolutions = [layer for layer in module.modules() if isinstance(layer, nn.Conv2d)]
    safe = all(layer.out_channels % 8 == 0 for layer in convolutions)
    return torch.channels_last if safe else torch.contiguous_format


@torch.no_grad()
def feature_dim(backbone: nn.Module, size: int) -> int:
    """The number of features D of a network from images (n, 3, size, size) to (n, D)."""
    weight = next(backbone.parameters())
    was_training = backbone.training
    features = backbone.eval()(torch.zeros(2, 3, size, size, device=weight.device, dtype=weight.dtype))
    backbone.train(was_training)
    if not isinstance(features, Tensor) or features.dim() != 2 or len(features) != 2:
        shape = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise ValueError(f"The backbone must return features (n, D), but for 2 images it returned {shape}.")
    return features.shape[1]


def _text(value: float | None) -> str:
    return "nan" if value is None else f"{value:.3g}"


def _check_finite(state: PretrainState, settings: Settings, dtype: torch.dtype, description: str) -> None:
    if state.skipped == MAX_SKIPPED:
        advice = "lower the learning rate" + (" or use precision float32" if dtype != torch.float32 else "")
        raise FloatingPointError(
            f"{description} stopped at step {state.step}: loss or gradient was not finite in {MAX_SKIPPED} "
            f"consecutive steps (learning rate {settings.lr:g}); {advice}."
        )


def _watch_collapse(state: PretrainState, value: float | None) -> None:
    """Average the spread, and warn once if the embedding has collapsed."""
    was_fine = state.spread >= COLLAPSED
    state.spread += ((value or 0.0) - state.spread) / min(state.step, COLLAPSE_STEPS)
    first_time = was_fine or state.step == COLLAPSE_STEPS  # before, the mean is over too few steps
    if first_time and state.spread < COLLAPSED and state.step >= COLLAPSE_STEPS:
        warnings.warn(
            f"The embedding has collapsed: its spread is {state.spread:.2g} (1 if it points in all directions), so all "
            "images look the same to the encoder; lower the learning rate, or give more varied images.",
            ConvergenceWarning,
            stacklevel=3,
        )

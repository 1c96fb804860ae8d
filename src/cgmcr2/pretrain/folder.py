"""From images to the folder of a trained encoder."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from cgmcr2._random import seed_from
from cgmcr2.distributed import ONE_PROCESS, Group
from cgmcr2.encoders.pretrained import WEIGHTS, PretrainedConfig, read_pretrained_config, save_pretrained
from cgmcr2.encoders.registry import PRETRAINED_CONFIG
from cgmcr2.images import Catalog
from cgmcr2.training.state_file import check_identity

from .images import cache_path, choose_size, load_images
from .loop import Pretrained, backbone_name, pretrain
from .registry import resolve
from .state import CHECKPOINT

UNFINISHED = (CHECKPOINT, "metrics.jsonl", WEIGHTS)  # files of an unfinished training


def pretrain_images(
    source: str | os.PathLike[str] | Catalog,
    folder: str | os.PathLike[str],
    method: str = "moco-v2",
    overrides: Mapping[str, Any] | None = None,
    *,
    seed: int = 0,
    device: str = "auto",
    precision: str = "auto",
    backbone: nn.Module | None = None,
    progress: bool = False,
    group: Group = ONE_PROCESS,
) -> Pretrained | None:
    """Train an encoder on images and write it to ``folder``, which ``load_encoder`` accepts.

    An interrupted training is resumed, and a finished one is not repeated: then None is returned.

    Parameters
    ----------
    source : folder, list or archive of images, or a catalog of them
    folder : where to write the encoder
    method, overrides, seed, device, precision, backbone, progress, group : see ``pretrain``; the default size is 32
        pixels for images of less than 64, else 224
    """
    folder, seed = Path(folder), seed_from(seed)
    catalog = source if isinstance(source, Catalog) else Catalog.from_source(source, exclude=[folder])
    overrides = dict(overrides or {})
    resolve(method, overrides)  # check the settings before the images are read
    overrides.setdefault("size", choose_size(catalog))
    settings, options = resolve(method, overrides)
    request = {
        "settings": {"method": method, **dataclasses.asdict(settings), **options},
        "seed": seed,
        "data": catalog.fingerprint,
        "backbone": backbone_name(backbone),
        "precision": precision,
    }
    if (folder / PRETRAINED_CONFIG).exists():
        earlier = {"backbone": "ResNet18", "precision": "auto", **read_pretrained_config(folder).training}
        check_identity(folder, earlier, request)
        return None
    group.on_first(lambda: _check_folder(folder))
    group.on_first(lambda: folder.mkdir(parents=True, exist_ok=True))
    images = load_images(catalog, settings.size, folder, progress=progress, group=group)
    trained = pretrain(
        images,
        method,
        overrides,
        backbone=backbone,
        seed=seed,
        device=device,
        precision=precision,
        folder=folder,
        data=catalog.fingerprint,
        progress=progress,
        group=group,
    )
    if trained.finished and group.rank == 0:
        save_encoder(trained, folder, request)
        cache_path(folder, catalog, settings.size).unlink(missing_ok=True)
    return trained


def _check_folder(folder: Path) -> None:
    """Refuse a folder with files of others than an unfinished training."""
    names = [path.name for path in folder.iterdir()] if folder.exists() else []
    others = [name for name in names if name not in UNFINISHED and not name.startswith(("images-", "."))]
    if others:
        raise ValueError(
            f"{folder} contains files that do not belong to a training run ({others[0]}); choose a new folder."
        )


def save_encoder(trained: Pretrained, folder: Path, training: dict[str, Any]) -> None:
    """Write a finished training as an encoder, with what it was trained on, and delete its checkpoint."""
    settings, mean, std = trained.settings, trained.augmentation.mean, trained.augmentation.std
    config = PretrainedConfig(
        backbone=type(trained.backbone).__name__,
        dim=trained.dim,
        size=settings.size,
        stem=settings.stem,
        width=settings.width,
        mean=(mean[0], mean[1], mean[2]),
        std=(std[0], std[1], std[2]),
        training=training,
    )
    save_pretrained(folder, trained.backbone, config)
    (folder / CHECKPOINT).unlink(missing_ok=True)

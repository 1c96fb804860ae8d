"""Files that hold the state of an interrupted training: tensors and progress of one identity, with a checksum."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import xxhash
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from cgmcr2._files import replacing
from cgmcr2.distributed import ONE_PROCESS, Group

Tensors = dict[str, Tensor]


class StateFiles:
    """The files of one training.

    Args:
        folder: where the files are; None keeps none.
        identity: settings (under ``settings``), seed and data of the training; files of another one are refused.
        group: the processes that train; the first one reads and writes the files.
    """

    def __init__(self, folder: Path | None, identity: dict[str, Any], group: Group = ONE_PROCESS) -> None:
        self.folder, self.identity, self.group = folder, identity, group

    def write(self, name: str, tensors: Tensors, progress: dict[str, Any]) -> None:
        """Write tensors and JSON values to the file ``name``, atomically."""
        if self.folder is None or self.group.rank > 0:
            return
        copies = {key: tensor.detach().cpu().contiguous().clone() for key, tensor in tensors.items()}
        metadata = {"progress": json.dumps(progress), "identity": json.dumps(self.identity)}
        with replacing(self.folder / name) as temporary:
            save_file(copies, temporary, metadata={**metadata, "digest": _digest(copies, metadata)})

    def read(self, name: str) -> tuple[Tensors, dict[str, Any]]:
        """The tensors and values of the file ``name``; both are empty if there is no such file."""
        return self.group.on_first(lambda: self._read(name))

    @contextlib.contextmanager
    def reading(self, name: str) -> Iterator[None]:
        """Context in which tensors that do not fit raise one sentence about the file ``name``."""
        try:
            yield
        except (RuntimeError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise _unreadable(self.folder, name, error) from error

    def _read(self, name: str) -> tuple[Tensors, dict[str, Any]]:
        path = None if self.folder is None else self.folder / name
        if path is None or not path.exists():
            return {}, {}
        try:
            with safe_open(path, framework="pt") as file:
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a dict
                metadata = dict(file.metadata())
            if metadata.pop("digest") != _digest(tensors, metadata):
                raise ValueError("its content has changed since it was written")
            progress, identity = (json.loads(metadata[key]) for key in ("progress", "identity"))
        except (SafetensorError, KeyError, TypeError, ValueError) as error:
            raise _unreadable(self.folder, name, error) from error
        check_identity(self.folder, identity, self.identity)
        return tensors, progress


def check_identity(folder: Path | None, old: dict[str, Any], new: dict[str, Any]) -> None:
    """Refuse the files of a training with other settings or data."""
    if old != new:
        raise ValueError(
            f"{folder} holds a training run with other settings or data ({_difference(old, new)}); "
            "choose another folder, or delete it."
        )


def optimizer_tensors(optimizer: torch.optim.Optimizer, modules: nn.Module) -> Tensors:
    """The state of the optimizer as tensors by name, for the parameters of ``modules``."""
    return {
        f"optimizer.{key}.{name}": value
        for name, parameter in modules.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
        if value is not None
    }


def load_optimizer(optimizer: torch.optim.Optimizer, modules: nn.Module, tensors: Tensors) -> None:
    """Restore what ``optimizer_tensors`` returned, with names without ``optimizer.``."""
    parameters = dict(modules.named_parameters())
    for name, tensor in tensors.items():
        key, _, parameter = name.partition(".")
        optimizer.state[parameters[parameter]][key] = tensor.to(parameters[parameter].device)


def _digest(tensors: Tensors, metadata: dict[str, str]) -> str:
    """The XXH3-128 digest of names, types, shapes and values of ``tensors``, and of ``metadata``."""
    state = xxhash.xxh3_128(json.dumps(metadata, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        state.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        state.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return state.hexdigest()


def _unreadable(folder: Path | None, name: str, error: Exception) -> ValueError:
    reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(":.")
    return ValueError(
        f"{folder}/{name} is not a readable checkpoint ({reason}); delete it to train from the beginning."
    )


def _difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    flat_old, flat_new = {**old, **old["settings"]}, {**new, **new["settings"]}
    names = [name for name in flat_new if name != "settings" and flat_old.get(name) != flat_new[name]]
    return "; ".join(f"{name} was {flat_old.get(name)}, is {flat_new[name]} now" for name in names[:3])

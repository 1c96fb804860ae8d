"""Where training runs and in which precision."""

from __future__ import annotations

import contextlib

import torch


def choose_device(name: str = "auto") -> torch.device:
    """``auto`` is CUDA, else MPS, else the CPU; any other name is torch's."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ValueError(f"The device {name!r} cannot be used here; use 'auto' or 'cpu'.") from error
    return device


def choose_precision(name: str, device: torch.device) -> torch.dtype:
    """The type of the network's products: ``auto`` is bfloat16 where the hardware multiplies it, else float32."""
    if name == "auto":
        return torch.bfloat16 if _multiplies_bfloat16(device) else torch.float32
    try:
        return {"float32": torch.float32, "bfloat16": torch.bfloat16}[name]
    except KeyError:
        raise ValueError(f"precision must be 'auto', 'float32' or 'bfloat16', but is {name!r}.") from None


def _multiplies_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":  # without the instructions bfloat16 is emulated and several times as slow
        probe = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
        return bool(probe and probe())
    return False


def autocast(device: torch.device, dtype: torch.dtype) -> contextlib.AbstractContextManager[object]:
    """Matrix products in ``dtype``; nothing to do for float32."""
    if dtype == torch.float32:
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=dtype)

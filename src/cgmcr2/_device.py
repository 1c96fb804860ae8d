"""The device and the precision that training and encoders use."""

from __future__ import annotations

import contextlib
from typing import Literal, get_args

import torch

Precision = Literal["auto", "float32", "bfloat16"]
WIDE = 4096  # hidden width from which bfloat16 may be faster on a CPU (no gain at 256)


def choose_device(name: str = "auto") -> torch.device:
    """The device of this name; ``"auto"`` is CUDA if available, else MPS, else the CPU."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ValueError(f"The device {name!r} cannot be used on this machine; use 'auto' or 'cpu'.") from error
    return device


def choose_precision(name: str, device: torch.device, width: int) -> torch.dtype:
    """The autocast type of training.

    ``"auto"`` is bfloat16 on CUDA devices that support it. On the CPU it is float32, so that labels do not depend on
    the CPU's support of bfloat16, unless the CPU has it and the hidden layers have at least ``WIDE`` units.
    """
    if name not in get_args(Precision):
        raise ValueError(f"precision must be one of {', '.join(map(repr, get_args(Precision)))}, but is {name!r}.")
    if name == "auto":
        use_bfloat16 = supports_bfloat16(device) and (device.type != "cpu" or width >= WIDE)
        return torch.bfloat16 if use_bfloat16 else torch.float32
    return torch.bfloat16 if name == "bfloat16" else torch.float32


def supports_bfloat16(device: torch.device) -> bool:
    """Whether the device has native bfloat16 matrix products; emulated ones are slower than float32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        probe = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
        return bool(probe and probe())
    return False


def autocast(device: torch.device, dtype: torch.dtype) -> contextlib.AbstractContextManager[object]:
    """Context in which matrix products are computed in ``dtype``; a null context for float32."""
    if dtype == torch.float32:
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=dtype)

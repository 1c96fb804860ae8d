"""What every objective does first: check the shapes and leave reduced precision."""

from __future__ import annotations

import torch
from torch import Tensor


def full_precision(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors in their common floating type, float32 at least: half precision loses the logarithm's small terms."""
    dtype = torch.float32
    for tensor in tensors:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return tuple(tensor.to(dtype) for tensor in tensors)


def without_autocast(tensor: Tensor) -> torch.autocast:
    """A context in which autocast does not take the products of float32 tensors back to half precision."""
    return torch.autocast(tensor.device.type, enabled=False)


def refuse_second_derivative() -> None:
    """Raise where the gradient itself is to be differentiated, which a gradient by hand would silently get wrong."""
    if torch.is_grad_enabled():
        raise RuntimeError(
            "The rates and the cut have no second derivative; do not ask for one with create_graph=True."
        )


def check_embedding(Z: Tensor) -> None:
    """Raise unless ``Z`` is a matrix with at least one row."""
    if Z.ndim != 2 or Z.shape[0] == 0 or Z.shape[1] == 0:
        raise ValueError(f"Z has shape {tuple(Z.shape)}; pass an embedding of shape (n, d) with n, d >= 1.")


def check_memberships(Pi: Tensor, n: int) -> None:
    """Raise unless ``Pi`` is (n, k) or (heads, n, k)."""
    if Pi.ndim not in (2, 3) or Pi.shape[-2] != n or Pi.shape[-1] == 0:
        raise ValueError(
            f"Pi has shape {tuple(Pi.shape)} for n={n} rows; pass memberships of shape (n, k) or (heads, n, k)."
        )


def check_positive(name: str, value: float) -> None:
    """Raise unless ``value`` is a number above zero."""
    if not value > 0:
        raise ValueError(f"{name} is {value}; pass a number above 0.")

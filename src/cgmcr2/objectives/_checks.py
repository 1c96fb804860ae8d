"""Input checks and numerical precision, shared by all objectives."""

from __future__ import annotations

import typing
from typing import Any

import torch
from torch import Tensor


def full_precision(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Cast the tensors to their common floating-point type, at least float32.

    Half precision is too coarse for the log-determinants.
    """
    dtype = torch.float32
    for tensor in tensors:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return tuple(tensor.to(dtype) for tensor in tensors)


def without_autocast(tensor: Tensor) -> torch.autocast:
    """Return a context manager that disables autocast on the tensor's device."""
    return torch.autocast(tensor.device.type, enabled=False)


def refuse_second_derivative() -> None:
    """Raise if a hand-written backward pass is itself differentiated."""
    if torch.is_grad_enabled():
        raise RuntimeError("The coding rates and the cut have no second derivative; do not use create_graph=True.")


def check_embedding(Z: Tensor) -> None:
    """Raise unless ``Z`` is a matrix with at least one row and one column."""
    if Z.ndim != 2 or Z.shape[0] == 0 or Z.shape[1] == 0:
        raise ValueError(f"Z has shape {tuple(Z.shape)}; pass an embedding of shape (n, d) with n, d >= 1.")


def check_memberships(Pi: Tensor, n: int) -> None:
    """Raise unless ``Pi`` is (n, k) or (heads, n, k)."""
    if Pi.ndim not in (2, 3) or Pi.shape[-2] != n or Pi.shape[-1] == 0:
        raise ValueError(
            f"Pi has shape {tuple(Pi.shape)} for n={n} rows; pass memberships of shape (n, k) or (heads, n, k)."
        )


def check_positive(name: str, value: float) -> None:
    """Raise unless ``value`` is above zero."""
    if not value > 0:
        raise ValueError(f"{name} is {value}; pass a number above 0.")


def check_choice(name: str, value: str, literal: Any) -> None:
    """Raise unless ``value`` is one of the choices of ``literal``, a ``typing.Literal``.

    >>> check_choice("color", "red", typing.Literal["green", "blue"])
    Traceback (most recent call last):
    ValueError: color is 'red'; choose one of 'green', 'blue'.
    """
    choices = typing.get_args(literal)
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; choose one of {', '.join(map(repr, choices))}.")

"""Small array functions that several packages share."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

SAFE_RANGE = (2.0**-33, 2.0**50)  # squares of such numbers, and sums of them over a row, are exact enough in float32


def unit_rows(X: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Scale the rows of ``X (n, D)`` to unit length; zero rows stay zero.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    return np.asarray(X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12))


def plain(value: Any) -> Any:
    """Parameters as values of JSON: NumPy scalars as numbers, paths as text.

    >>> plain({"k": np.int64(3), "settings": {"lr": np.float64(0.5)}})
    {'k': 3, 'settings': {'lr': 0.5}}
    """
    if isinstance(value, Mapping):
        return {name: plain(entry) for name, entry in value.items()}
    if isinstance(value, np.generic):
        return value.item()
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def float32_rows(X: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """``X (n, D)`` as a writable float32 array, with rows of extreme size scaled by a power of two.

    Squares of large and small numbers overflow and underflow. So a row whose largest absolute value is outside
    ``SAFE_RANGE`` is scaled such that it is between 0.5 and 1. Only the directions of rows matter to clustering. ``X``
    is copied only if necessary, and never changed.

    >>> float32_rows(np.array([[1e-200, 2e-200], [3.0, 4.0]])).tolist()
    [[0.3..., 0.7...], [3.0, 4.0]]
    """
    X = np.asarray(X)
    with np.errstate(over="ignore"):  # numbers too large for float32 are scaled below
        values = np.require(X, dtype=np.float32, requirements=["C", "W"])
    if X.ndim != 2 or not X.size or X.dtype == np.float16:
        return values
    exact = X if X.dtype.kind == "f" else values
    peak = np.maximum(exact.max(axis=1), -exact.min(axis=1))
    low, high = SAFE_RANGE
    extreme = np.flatnonzero(((peak > high) & (peak < np.inf)) | ((peak > 0) & (peak < low)))
    if len(extreme):
        values = values.copy() if np.may_share_memory(values, X) else values
        values[extreme] = np.ldexp(exact[extreme], -np.frexp(peak[extreme])[1][:, None])
    return values


def confidence_and_margin(
    labels: npt.NDArray[np.int64], probabilities: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """The probability (n,) of each row's label, and its difference (n,) to the largest other probability.

    ``probabilities (n, k)`` is copied. Sums that rounding lifts above 1 are limited to 1.

    >>> confidence, margin = confidence_and_margin(np.array([0, 1]), np.array([[0.75, 0.25], [0.5, 0.5]], np.float32))
    >>> confidence.tolist(), margin.tolist()
    ([0.75, 0.5], [0.5, 0.0])
    """
    others = np.array(probabilities)
    confidence = np.minimum(np.take_along_axis(others, labels[:, None], axis=1)[:, 0], 1)
    np.put_along_axis(others, labels[:, None], 0, axis=1)
    return confidence, confidence - others.max(axis=1, initial=0)

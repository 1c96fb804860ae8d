"""Data without groups that resembles given data, and copies of rows: what the choice of k is checked against."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch

from cgmcr2._arrays import unit_rows

Float32 = npt.NDArray[np.float32]


def gaussian_rows(X: Float32, seed: int) -> Float32:
    """(n, D) Gaussian rows with the mean and covariance of the unit rows of ``X (n, D)``."""
    U = torch.from_numpy(unit_rows(X))
    mean = U.mean(0)
    R = torch.linalg.qr(U - mean, mode="r").R  # R'R is n times the covariance
    noise = torch.randn(len(U), len(R), generator=torch.Generator().manual_seed(seed))
    rows: Float32 = (mean + noise @ R / math.sqrt(len(U))).numpy()
    return rows


def permuted_columns(X: Float32, seed: int) -> Float32:
    """The unit rows of ``X (n, D)`` with each column permuted independently."""
    return np.random.default_rng(seed).permuted(unit_rows(X), axis=0)


def count_distinct(X: Float32, most: int, distance: float) -> int:
    """The number of directions of rows that are further apart than ``distance``; counting stops at ``most``.

    >>> count_distinct(np.array([[1, 0], [2, 0], [0, 1]], dtype=np.float32), 9, 1e-3)
    2
    """
    U = unit_rows(X)
    count = 0
    while len(U) and count < most:
        U = U[np.linalg.norm(U - U[0], axis=1) > distance]
        count += 1
    return count

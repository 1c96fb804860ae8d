"""Surrogate data without groups, and copies of rows: what the choice of k is checked against.

Both surrogates have a null hypothesis for which comparison with them is exact: Gaussian rows, and independent columns.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from cgmcr2._arrays import unit_rows

Float32 = npt.NDArray[np.float32]


def rotated_rows(X: Float32, rng: np.random.Generator) -> Float32:
    """Gaussian-like rows with exactly the mean and covariance of ``X (n, D)``.

    The centred columns of X are rotated at random in the space of the n rows. If the rows of X are Gaussian, whatever
    their mean and covariance, the result has the distribution of X (rotation test; Langsrud, 2005).
    """
    C = torch.from_numpy(X)
    mean = C.mean(0)
    R = torch.linalg.qr(C - mean, mode="r").R  # R'R = n x covariance
    noise = torch.from_numpy(rng.standard_normal((len(C), len(R)), dtype=np.float32))
    Q = torch.linalg.qr(noise - noise.mean(0)).Q
    rows: Float32 = (mean + Q @ R).numpy()
    return rows


def permuted_columns(X: Float32, rng: np.random.Generator) -> Float32:
    """The rows of ``X (n, D)`` with each column permuted independently."""
    return rng.permuted(X, axis=0)


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

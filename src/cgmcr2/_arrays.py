"""Small array functions that several packages share."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def unit_rows(X: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Scale the rows of ``X (n, D)`` to unit length; zero rows stay zero.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    return np.asarray(X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12))

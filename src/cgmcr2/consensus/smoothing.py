"""Features that k-means can partition well: each linear view, smoothed over its own neighbour graph.

The first partition of a training is made on a graph that both views share, so that they help each other. Here they are
kept apart: what judges an answer must not come from where the answer does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor

from .ensemble import walked
from .views import Int64, among_themselves, linear_views

NEIGHBOURS = 10  # of each row in the graph of each view
DIRECTIONS = 64  # of a smoothed view that k-means sees; neighbours are sought in twice as many


@torch.no_grad()
def smooth_views(X: npt.NDArray[np.float32], walks: Sequence[int], seed: int) -> tuple[list[Int64], list[list[Tensor]]]:
    """For each of the two views of ``X (n, D)``: the neighbours (n, m) of each row, nearest first, and its unit rows
    (n, p) after each of so many steps of a lazy walk over them.
    """
    both = linear_views(X, min(256, X.shape[1]), seed).unit(torch.from_numpy(X))
    views = [view[:, : 2 * DIRECTIONS] for view in both]
    near = [among_themselves(view, min(NEIGHBOURS, len(X) - 1)).numpy() for view in views]
    return near, [_walked(view, J, walks) for view, J in zip(views, near, strict=True)]


def _walked(X: Tensor, neighbours: Int64, walks: Sequence[int]) -> list[Tensor]:
    n, m = neighbours.shape
    W = sp.csr_array((np.ones(n * m, dtype=np.float32), neighbours.ravel(), np.arange(n + 1) * m), (n, n))
    W = W + W.T + 2 * sp.eye_array(n, dtype=np.float32)
    degrees: npt.NDArray[np.float32] = np.asarray(W.sum(axis=1))
    walk = sp.csr_array(sp.diags_array(1 / degrees) @ W).astype(np.float32)
    return [F.normalize(Y, dim=1)[:, :DIRECTIONS].contiguous() for Y in walked(walk, X.contiguous(), walks)]

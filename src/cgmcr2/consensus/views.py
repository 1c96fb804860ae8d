"""What training takes from the data before its first step: linear views, neighbours in them, a first partition.

Nothing of size n x n exists; beyond ``CHUNK`` rows neighbours are sought among a part of them.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import scipy.linalg
import torch
import torch.nn.functional as F
from torch import Tensor

from cgmcr2.features.sources import FeatureSource, read_rows

SAMPLE = 20_000  # rows that the views are taken from
CHUNK = 20_000  # rows among which neighbours are sought: the cost stays linear in n
BLOCK = 2048  # rows whose similarities to a chunk are held at once

Int64 = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class Views:
    """``(x / |x| - mean) matrix`` for two matrices (D, p): ``standard`` and ``white``.

    ``standard`` divides each feature by ``sqrt(var + mean var)`` and turns to the principal directions; ``white``
    divides each principal direction by ``sqrt(w + mean w)``. The shrinkage towards the mean keeps noise from being
    blown up. Both are scaled to a mean square of 1 in each direction. They err differently, so what both agree on can
    be trusted.
    """

    mean: Tensor
    standard: Tensor
    white: Tensor

    def unit(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """``X (n, D)`` in both views, rows of unit length."""
        X = F.normalize(X, dim=1) - self.mean
        return F.normalize(X @ self.standard, dim=1), F.normalize(X @ self.white, dim=1)


@torch.no_grad()
def linear_views(source: FeatureSource, p: int, seed: int) -> Views:
    """The two views of the rows of ``source``, with at most p directions each, from a sample of the rows."""
    n = source.shape[0]
    rows = np.arange(n) if n <= SAMPLE else np.sort(np.random.default_rng([seed, 1]).choice(n, SAMPLE, replace=False))
    U = F.normalize(torch.from_numpy(read_rows(source, rows)), dim=1)
    mean = U.mean(0)
    U = U - mean
    covariance = (U.T @ U).double() / len(U)  # (D, D)
    variance = covariance.diagonal()
    scale = 1 / (variance + variance.mean() + 1e-12).sqrt()
    matrices = []
    for scaling, whiten in ((scale, False), (torch.ones_like(scale), True)):
        scaled = (covariance * scaling[:, None] * scaling).numpy()
        leading = scipy.linalg.eigh(scaled, subset_by_index=[len(scaled) - p, len(scaled) - 1])  # ascending
        w, V = (torch.from_numpy(part).flip(-1) for part in leading)
        w = w.clamp_min(0)
        V = V * V.gather(0, V.abs().argmax(0, keepdim=True)).sign()  # eigenvectors have no sign of their own: fix one
        stretch = 1 / (w + w.mean() + 1e-12).sqrt() if whiten else torch.ones_like(w)
        matrix = scaling[:, None] * V * stretch
        power = (matrix * (covariance @ matrix)).sum()  # mean square length of a row
        matrices.append((matrix * (p / power.clamp_min(1e-12)).sqrt()).float())
    return Views(mean, *matrices)


@torch.no_grad()
def nearest_neighbours(source: FeatureSource, views: Views, m: int, seed: int) -> Int64:
    """(2, n, m) the m rows most similar to each row by cosine, without itself, in the one view and in the other.

    Beyond ``CHUNK`` rows each row's neighbours are sought among those of its random chunk, which keeps the time linear
    in n and hardly changes the result: among 20,000 rows the tenth neighbour is still a near one.
    """
    n = source.shape[0]
    m = min(m, n - 1)
    order = np.random.default_rng([seed, 2]).permutation(n) if n > CHUNK else np.arange(n)
    result = np.empty((2, n, m), dtype=np.int64)
    for rows in np.array_split(order, max(1, -(-n // CHUNK))):
        rows = np.sort(rows)
        for i, X in enumerate(views.unit(torch.from_numpy(read_rows(source, rows)))):
            result[i, rows] = rows[among_themselves(X, m).numpy()]
    return result


def among_themselves(X: Tensor, m: int) -> Tensor:
    """(n, m) the m rows of largest inner product with each row of ``X (n, p)``, without itself."""
    found = []
    for start in range(0, len(X), BLOCK):
        similarity = X[start : start + BLOCK] @ X.T
        similarity.diagonal(start).fill_(-torch.inf)
        found.append(similarity.topk(m, dim=1).indices)
    return torch.cat(found)

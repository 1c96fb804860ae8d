"""What training takes from the data before its first step: statistics, principal directions, neighbours.

Each reads a bounded number of rows, or all rows in bounded blocks; nothing of size n x n exists.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from cgmcr2.features.sources import FeatureSource, read_rows
from cgmcr2.model import Network

SAMPLE = 20_000  # rows that statistics and principal directions are taken from
CHUNK = 16_384  # rows among which neighbours are sought: the cost stays linear in n


def sample_rows(source: FeatureSource, seed: int, size: int = SAMPLE) -> Tensor:
    """At most ``size`` random rows, in their order in the source (kind to a disk)."""
    n = source.shape[0]
    rows = np.arange(n) if n <= size else np.sort(np.random.default_rng([seed, 1]).choice(n, size, replace=False))
    return torch.from_numpy(read_rows(source, rows))


@torch.no_grad()
def prepare(network: Network, source: FeatureSource, seed: int, *, standardize: bool, pca: bool) -> None:
    """Give ``network`` its input statistics and the start of its embedding, from a sample of the rows."""
    if not (standardize or pca):
        return
    X = sample_rows(source, seed)
    if standardize:
        mean = X.mean(0)
        spread = (X - mean).square().mean().sqrt()
        scale = torch.full_like(mean, 1 / float(spread) if spread > 0 else 1.0)
        network.standardize(mean, scale)
        X = (X - mean) * scale
    if pca:
        d = min(network.config.embedding_dim, *X.shape)
        _, vectors = torch.linalg.eigh((X.T @ X).double() / len(X))  # ascending
        components = vectors.flip(1)[:, :d].T
        largest = components.abs().argmax(1, keepdim=True)
        components = (
            components * components.gather(1, largest).sign()
        )  # eigenvectors have no sign of their own: fix one
        network.start_from_pca(components.float())


@torch.no_grad()
def nearest_neighbours(source: FeatureSource, m: int, seed: int) -> npt.NDArray[np.int64]:
    """(n, m) the rows most similar to each row by cosine, without itself.

    Beyond ``CHUNK`` rows each row's neighbours are sought among those of its random chunk, which keeps the time linear
    in n and hardly changes the result: among 16,384 rows the tenth neighbour is still a near one.
    """
    n = source.shape[0]
    m = min(m, n - 1)
    order = np.random.default_rng([seed, 2]).permutation(n) if n > CHUNK else np.arange(n)
    result = np.empty((n, m), dtype=np.int64)
    for rows in np.array_split(order, max(1, -(-n // CHUNK))):
        rows = np.sort(rows)
        X = F.normalize(torch.from_numpy(read_rows(source, rows)), dim=1)
        for start in range(0, len(rows), 2048):
            similarity = X[start : start + 2048] @ X.T
            similarity.diagonal(start).fill_(-torch.inf)
            result[rows[start : start + 2048]] = rows[similarity.topk(m, dim=1).indices.numpy()]
    return result

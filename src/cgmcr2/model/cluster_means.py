"""Mean features of the clusters, and how unusual a row is among the rows that they were computed from.

Training moves every row close to the subspace of a cluster, even a row of another kind than all others. So unusual
rows are found in the features, not in the embedding. The file ``cluster_means.safetensors`` is saved beside the
network.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from cgmcr2._files import replacing

FILE_NAME = "cluster_means.safetensors"
QUANTILES = 1_000  # outlier scores are multiples of 1 / QUANTILES
DECIMALS = 6  # of a distance, so that equal rows seldom differ by rounding error


@dataclasses.dataclass(frozen=True)
class ClusterMeans:
    """Directions ``means (k, D)`` of the clusters, and ``distances (q,)`` of the fitted rows from the nearest, sorted.

    A cluster without rows has the direction zero. Distances are cosine distances.

    >>> U = F.normalize(torch.tensor([[1.0, 0], [1, 0.1], [0, 1], [0.1, 1]]), dim=1)
    >>> means = ClusterMeans.of(U, torch.tensor([0, 0, 1, 1]), 2)
    >>> means.outlier_scores(F.normalize(torch.tensor([[1.0, 0.05], [-1, -1]]), dim=1)).tolist()
    [0.0, 1.0]
    """

    means: Tensor
    distances: Tensor

    @classmethod
    def of(cls, U: Tensor, labels: Tensor, k: int) -> ClusterMeans:
        """The means of the k clusters ``labels (n,)`` of the unit rows ``U (n, D)``."""
        means = F.normalize(U.new_zeros(k, U.shape[1]).index_add_(0, labels, U), dim=1)
        distances = cls(means, U.new_empty(0)).nearest(U).sort().values
        ranks = torch.linspace(0, len(distances) - 1, min(len(distances), QUANTILES)).round().long()
        return cls(means, distances[ranks])

    def nearest(self, U: Tensor) -> Tensor:
        """(n,) the cosine distance of each unit row of ``U (n, D)`` to the nearest mean."""
        return (1 - (U @ self.means.to(U).T).amax(1)).round(decimals=DECIMALS)

    def outlier_scores(self, U: Tensor) -> Tensor:
        """(n,) the share of fitted rows that are nearer to a mean than each unit row of ``U (n, D)``."""
        return torch.searchsorted(self.distances.to(U), self.nearest(U)) / len(self.distances)


def save_cluster_means(folder: Path, means: ClusterMeans) -> None:
    """Write ``cluster_means.safetensors``."""
    with replacing(folder / FILE_NAME) as temporary:
        save_file({name: tensor.cpu().contiguous() for name, tensor in vars(means).items()}, temporary)


def load_cluster_means(folder: Path, width: int) -> ClusterMeans:
    """Read ``cluster_means.safetensors``, of features of the given width."""
    path = folder / FILE_NAME
    try:
        means = ClusterMeans(**load_file(path))
        if means.means.ndim != 2 or means.means.shape[1] != width or means.distances.ndim != 1:
            raise TypeError(f"means of {width} features are needed, not {list(means.means.shape)}")
        return means
    except (SafetensorError, TypeError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{path} cannot be read ({reason}); restore the file, or train the model again.") from None

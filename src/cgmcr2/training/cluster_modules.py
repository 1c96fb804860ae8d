"""The paper's other choices for the cluster module: a batch is clustered anew in each step, with no gradient."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from sklearn.cluster import KMeans
from torch import Tensor

from cgmcr2.features.sources import FeatureSource, read_rows
from cgmcr2.graphs.self_expression import affinity, self_expression
from cgmcr2.graphs.spectral import spectral_clustering, spectral_embedding
from cgmcr2.model import Network

from .settings import Settings

TAU, BETA, NONZERO = 0.9, 10.0, 50  # of EnSC, as in cgmcr2.baselines.EnSC
ROWS, ROWS_EACH = 5_000, 20  # of the data that the centroids come from: so many, or so many for each cluster


def cluster(Z: npt.NDArray[np.float32], k: int, module: str, s: int, seed: int) -> npt.NDArray[np.int64]:
    """(n,) the clusters of the unit rows ``Z (n, d)``, at most k, by k-means, by the cut of ``P_s(ZZ')`` or by EnSC.

    >>> Z = np.eye(3, dtype=np.float32)[[0, 0, 0, 1, 1, 1, 2, 2, 2]] + 0.1
    >>> sorted(set(cluster(Z, 3, "k-means", 2, 0)[::3].tolist()))
    [0, 1, 2]
    """
    k, seed = min(k, len(Z)), seed % 2**32
    if module == "spectral":
        return spectral_clustering(Z, k, min(s, len(Z) - 1), seed=seed)
    if module == "ensc":
        Z = spectral_embedding(affinity(self_expression(Z, TAU, BETA), NONZERO), k, seed).astype(np.float32)
    return KMeans(k, n_init=10, random_state=seed).fit(Z).labels_.astype(np.int64)  # type: ignore[no-any-return]


def memberships(Z: Tensor, k: int, module: str, s: int, seed: int) -> Tensor:
    """(1, n, k) the clusters of a batch ``Z (n, d)`` as memberships 0 and 1 without a gradient."""
    rows = F.normalize(Z.detach().float(), dim=1).nan_to_num().cpu().numpy()
    labels = torch.from_numpy(cluster(rows, k, module, s, seed))
    return F.one_hot(labels, k).float().to(Z.device).unsqueeze(0)


@torch.no_grad()
def set_centroids(network: Network, source: FeatureSource, k: int, settings: Settings, seed: int) -> None:
    """Cluster the embedding of ``source (n, D)``, or of a sample of it, and give the network the mean directions."""
    n, most = source.shape[0], max(ROWS, ROWS_EACH * k)
    rows = np.arange(n) if n <= most else np.sort(np.random.default_rng([seed, 6]).choice(n, most, replace=False))
    device = next(network.parameters()).device
    X = torch.from_numpy(read_rows(source, rows))
    Z = torch.cat([network.embed(block.to(device))[0] for block in torch.split(X, 2048)])  # (m, d)
    s = max(3, round(settings.s * len(Z) / min(settings.batch_size, n)))  # as many for a cluster as in a batch
    Pi = memberships(Z, k, settings.cluster_module, s, seed)[0]
    network.set_centroids(Pi.T @ Z)  # (k, m) x (m, d) -> (k, d)

"""What assigns the rows of a batch to clusters: the cluster head, or a module of the paper's ablation (Table 7)."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from cgmcr2._random import Stream, generator, mix, sample_rows
from cgmcr2.features.sources import FeatureSource, read_rows
from cgmcr2.model import Network, gumbel_softmax
from cgmcr2.objectives._checks import full_precision

from .settings import Settings


class ClusterModule(Protocol):
    """Maps the embedding and the logits of a batch to memberships."""

    learns: ClassVar[bool]  # whether gradients reach the memberships, and so the cut can be minimised

    def memberships(self, Z: Tensor, logits: Tensor, step: int) -> Tensor:
        """Memberships (h, n, k) of a batch ``Z (n, d)`` with ``logits (h, n, k)``."""
        ...

    def finish(self, network: Network, source: FeatureSource) -> None:
        """Prepare the trained network for prediction."""
        ...


class ClusterHead:
    """The paper's cluster head: (Gumbel-)softmax of the logits. The noise depends on (seed, step) only."""

    learns: ClassVar[bool] = True

    def __init__(self, settings: Settings, seed: int, device: torch.device) -> None:
        self.settings, self.seed = settings, seed
        self.generator = torch.Generator(device)

    def memberships(self, Z: Tensor, logits: Tensor, step: int) -> Tensor:
        temperature = self.settings.temperature
        if self.settings.membership == "gumbel":
            return gumbel_softmax(logits, temperature, generator=self.generator.manual_seed(mix(self.seed, step)))
        return (full_precision(logits)[0] / temperature).softmax(-1)

    def finish(self, network: Network, source: FeatureSource) -> None:
        pass


@dataclasses.dataclass(frozen=True)
class EnSCConfig:
    """Settings of elastic net subspace clustering in a batch; those of ``cgmcr2.baselines.EnSC``."""

    tau: float = 0.9  # share of the l1 norm in the elastic net
    beta: float = 10.0  # weight of the reconstruction error, relative to the smallest useful one
    n_nonzero: int = 50  # coefficients kept in each row


ENSC = EnSCConfig()


class BatchClustering:
    """Clusters each batch of fine-tuning from scratch, without a gradient: k-means, spectral clustering or EnSC."""

    learns: ClassVar[bool] = False

    def __init__(self, settings: Settings, n_clusters: int, warmup_steps: int, seed: int) -> None:
        self.settings, self.n_clusters, self.warmup_steps, self.seed = settings, n_clusters, warmup_steps, seed

    def memberships(self, Z: Tensor, logits: Tensor, step: int) -> Tensor:
        if step < self.warmup_steps:  # the warm-up has no Rc, and without a gradient there is no cut
            return Z.new_full((1, len(Z), self.n_clusters), 1 / self.n_clusters, dtype=torch.float32)
        return self._cluster(Z, self.settings.s, mix(self.seed, step))

    def _cluster(self, Z: Tensor, s: int, seed: int) -> Tensor:
        rows = F.normalize(Z.detach().float(), dim=1).nan_to_num().cpu().numpy()
        labels = torch.from_numpy(cluster_rows(rows, self.n_clusters, self.settings.cluster_module, s, seed))
        return F.one_hot(labels, self.n_clusters).float().to(Z.device).unsqueeze(0)

    @torch.no_grad()
    def finish(self, network: Network, source: FeatureSource) -> None:
        """Cluster the embedding of (a sample of) ``source`` and predict by the nearest mean direction."""
        n, k = source.shape[0], self.n_clusters
        rows = sample_rows(n, max(5_000, 20 * k), generator(self.seed, Stream.CENTROIDS))
        device = next(network.parameters()).device
        X = torch.from_numpy(read_rows(source, rows))
        Z = torch.cat([network.embed(block.to(device))[0] for block in torch.split(X, 2048)])  # (m, d)
        # as many neighbours, relative to a cluster's size, as in a batch
        s = max(3, round(self.settings.s * len(Z) / min(self.settings.batch_size, n)))
        Pi = self._cluster(Z, s, self.seed)[0]
        network.set_centroids(Pi.T @ Z)  # (k, m) x (m, d) -> (k, d)


def cluster_rows(Z: npt.NDArray[np.float32], k: int, module: str, s: int, seed: int) -> npt.NDArray[np.int64]:
    """(n,) at most k clusters of the unit rows ``Z (n, d)`` by ``"k-means"``, ``"spectral"`` or ``"ensc"``.

    >>> Z = np.eye(3, dtype=np.float32)[[0, 0, 0, 1, 1, 1, 2, 2, 2]] + 0.1
    >>> sorted(set(cluster_rows(Z, 3, "k-means", 2, 0)[::3].tolist()))
    [0, 1, 2]
    """
    from sklearn.cluster import KMeans  # slow to import, and the cluster head does not need it

    from cgmcr2.graphs.self_expression import affinity, self_expression
    from cgmcr2.graphs.spectral import spectral_clustering, spectral_embedding

    k, seed = min(k, len(Z)), seed % 2**32
    if module == "spectral":
        return spectral_clustering(Z, k, min(s, len(Z) - 1), seed=seed)
    if module == "ensc":
        A = affinity(self_expression(Z, ENSC.tau, ENSC.beta), ENSC.n_nonzero)
        Z = spectral_embedding(A, k, seed).astype(np.float32)
    return KMeans(k, n_init=10, random_state=seed).fit(Z).labels_.astype(np.int64)  # type: ignore[no-any-return]

"""The consensus of many k-means partitions of smoothed features, which ``auto`` trains towards.

A single k-means depends on its initialisation and on the scale of the features. So k-means runs many times, on the
standard and the whitened view of the features (``views.py``), smoothed by random walks of several lengths over a
neighbour graph, and the partitions are combined into one. No labels are used.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from cgmcr2._progress import progress_bar
from cgmcr2.graphs.walk import jaccard_walk, walk_features

from .combine import combine
from .kmeans import kmeans
from .partitions import Float64, Int64, mean_nmi, modularity, pairwise_nmi, size_entropy


@dataclasses.dataclass(frozen=True)
class ConsensusConfig:
    """Constants of the consensus. None depends on the data set."""

    # Smoothing
    scales: tuple[int, ...] = (5, 10)  # neighbours of each row in the graphs
    overlap: int = 2  # neighbours compared for the Jaccard index, as a multiple of the scale
    walk_steps: tuple[int, ...] = (1, 2, 4, 8, 16)  # lengths of the random walk, from local to global
    stay: float = 0.1  # weight of the self-loop, relative to the degree
    components: int = 128  # leading principal components of a view to smooth

    # Ensemble
    max_starts: int = 20  # k-means runs per view, scale and walk length
    cost_per_walk: int = 2_000_000  # budget of rows x clusters x runs per view, scale and walk length
    kmeans_rows: int = 4_000  # rows per k-means run: min(n / 3, kmeans_rows), at least kmeans_rows_per_cluster x k
    kmeans_rows_per_cluster: int = 50  # fewer rows than this leave centroids too noisy
    runs_per_sample: int = 4  # k-means runs per sample of rows; more samples give more diversity

    # Selection
    max_white_deficit: float = 0.035  # largest NMI deficit at which only the whitened view is used
    unanimous_nmi: float = 0.99  # mean NMI within each view for early stopping
    min_rows_per_cluster: int = 30  # least rows per cluster for the choice of views and for reweighting
    trusted_share: float = 0.5  # fraction of the partitions that is combined, by mean NMI with the others
    nmi_rows: int = 1_000  # rows on which partitions are compared, or nmi_rows_per_cluster x k if more
    nmi_rows_per_cluster: int = 20  # fewer rows than this bias NMI upwards
    subsets: int = 4  # subsets per random division of the whitened view's partitions; each gives one candidate
    subset_rounds: int = 3  # number of random divisions
    min_subset_size: int = 10  # subsets smaller than this are not combined

    # Imbalance
    min_size_entropy: float = 0.99  # normalized entropy of the sizes above which they count as equal
    reweighting_rounds: int = 3  # largest number of reweighting rounds
    min_entropy_drop: float = 0.02  # decrease of that entropy that counts as evidence of imbalance
    converged_nmi: float = 0.92  # NMI of two consecutive rounds that counts as convergence


DEFAULT = ConsensusConfig()


class Consensus(NamedTuple):
    """A partition of n rows, and whether it comes from the whitened view only."""

    labels: Int64  # (n,)
    whitened: bool


def consensus_partition(
    standard: Tensor,
    white: Tensor,
    neighbours: Int64,
    k: int,
    seed: int,
    *,
    config: ConsensusConfig = DEFAULT,
    progress: bool = False,
) -> Consensus:
    """The consensus of many k-means partitions of n rows into k clusters.

    Each view is first partitioned by itself, smoothed over its own graph. If the mean NMI of the whitened view's
    partitions is at most ``max_white_deficit`` below the standard view's, only the whitened view is used: whitening
    reveals groups that dominant components hide. Several subsets of its partitions are combined, and
    the result of highest modularity is returned. Otherwise the partitions of both views, smoothed over their joint
    graph, are combined too. If the partitions of each view are nearly equal, no more are made.

    k-means splits large clusters and merges small ones. So if the sizes are unequal, the consensus is repeated with
    rows weighted by the rarity of their cluster. The result is used if it converges to less equal sizes.

    Args:
        standard, white: the two views (n, p), rows of unit length.
        neighbours: (2, n, m), the nearest rows in each view, nearest first.
        k: number of clusters.
        seed: random seed.
        config: constants of the algorithm.
        progress: show a progress bar.
    """
    n = len(standard)
    rows = min(n, max(min(n // 3, config.kmeans_rows), config.kmeans_rows_per_cluster * k))
    starts = int(np.clip(config.cost_per_walk // (rows * k), 1, config.max_starts))
    first_starts = max(1, starts // 2)
    walks = len(config.scales) * len(config.walk_steps)
    enough_rows = n >= config.min_rows_per_cluster * k
    total = 2 * walks * (first_starts + starts)
    with progress_bar(total, desc="Consensus", unit="k-means", enabled=progress) as bar:
        ensemble = _Ensemble(k, rows, torch.Generator().manual_seed(seed), config, bar.update)

        single = [
            list(ensemble.partitions([view], neighbours[i : i + 1], first_starts))
            for i, view in enumerate((standard, white))
        ]
        view_nmi = [mean_nmi(ensemble.nmi(partitions)) for partitions in single]
        unanimous = min(view_nmi) >= config.unanimous_nmi
        whitened = enough_rows and view_nmi[1] > view_nmi[0] - config.max_white_deficit
        if whitened:
            views, graphs, starts, partitions = [white], neighbours[1:], 2 * starts, single[1]
        else:
            views, graphs, partitions = [standard, white], neighbours, single[0] + single[1]
        if not unanimous:
            partitions = partitions + list(ensemble.partitions(views, graphs, starts))
        if whitened and not unanimous:
            labels = _most_modular(ensemble, partitions, neighbours[1, :, : max(config.scales)], seed)
        else:
            labels = combine(ensemble.trusted(partitions), k, seed)

        if enough_rows and size_entropy(labels, k) < config.min_size_entropy:
            starts = max(1, starts // 5)
            rounds = [labels]
            for _ in range(config.reweighting_rounds):
                weights = rarity_weights(rounds[-1])
                partitions = list(ensemble.partitions(views, graphs, starts, weights))
                rounds.append(combine(ensemble.trusted(partitions), k, seed, weights))
                if imbalance_converged(rounds, k, config):
                    labels = rounds[-1]
                    break
    return Consensus(labels, whitened)


class _Ensemble:
    """Makes and compares the partitions of one consensus."""

    def __init__(
        self,
        k: int,
        rows: int,
        generator: torch.Generator,
        config: ConsensusConfig,
        on_partitions: Callable[[int], object],
    ) -> None:
        self.k, self.rows, self.generator, self.config, self.on_partitions = k, rows, generator, config, on_partitions

    def partitions(
        self, views: Sequence[Tensor], neighbours: Int64, starts: int, weights: Tensor | None = None
    ) -> Iterator[Int64]:
        """Yield ``starts`` k-means partitions (n,) of each view at each scale and walk length."""
        for Y in smoothed(views, neighbours, self.config):
            for done in range(0, starts, self.config.runs_per_sample):
                runs = min(self.config.runs_per_sample, starts - done)
                yield from kmeans(Y, self.k, runs, self.generator, rows=self.rows, weights=weights)[0].numpy()
            self.on_partitions(starts)

    def nmi(self, partitions: Sequence[Int64]) -> Float64:
        """(M, M) normalized mutual information of every pair, on evenly spaced rows."""
        rows = max(self.config.nmi_rows, self.config.nmi_rows_per_cluster * self.k)
        step = max(1, len(partitions[0]) // rows)
        return pairwise_nmi([labels[::step] for labels in partitions])

    def trusted(self, partitions: Sequence[Int64], nmi: Float64 | None = None) -> list[Int64]:
        """The partitions with the highest mean NMI to all others, in input order."""
        mean = (self.nmi(partitions) if nmi is None else nmi).mean(1)
        selected = np.argsort(-mean, kind="stable")[: math.ceil(self.config.trusted_share * len(partitions))]
        return [partitions[i] for i in np.sort(selected)]


def _most_modular(ensemble: _Ensemble, partitions: Sequence[Int64], neighbours: Int64, seed: int) -> Int64:
    """(n,) the consensus of highest modularity, over all partitions and random subsets of them."""
    config = ensemble.config
    M, rng, nmi = len(partitions), np.random.default_rng(seed), ensemble.nmi(partitions)
    subsets = [np.arange(M)]
    rounds = config.subset_rounds if config.min_subset_size * config.subsets <= M else 0
    for order in (rng.permutation(M) for _ in range(rounds)):
        subsets += [order[i :: config.subsets] for i in range(config.subsets)]
    candidates = [
        combine(
            ensemble.trusted([partitions[i] for i in subset.tolist()], nmi[np.ix_(subset, subset)]), ensemble.k, seed
        )
        for subset in subsets
    ]
    return max(candidates, key=lambda labels: modularity(labels, neighbours))


def smoothed(views: Sequence[Tensor], neighbours: Int64, config: ConsensusConfig = DEFAULT) -> Iterator[Tensor]:
    """Yield each view (n, p), smoothed and of unit rows, at each scale and walk length."""
    widths = [min(config.components, X.shape[1]) for X in views]
    for scale in config.scales:
        walk = jaccard_walk(neighbours[:, :, : config.overlap * scale], scale, config.stay)
        joined = torch.cat([X[:, : config.components] for X in views], dim=1)
        for Y in walk_features(walk, joined, config.walk_steps):
            for view in torch.split(Y, widths, dim=1):
                yield F.normalize(view, dim=1)


def rarity_weights(labels: Int64) -> Tensor:
    """(n,) row weights proportional to ``size^-1.5`` of the row's cluster, with mean 1.

    Exponent -1 does not merge the halves of a split large cluster again.
    """
    weights = torch.from_numpy(np.bincount(labels)[labels]).float() ** -1.5
    return weights / weights.mean()


def imbalance_converged(rounds: Sequence[Int64], k: int, config: ConsensusConfig = DEFAULT) -> bool:
    """Whether the last two rounds agree and have less equal sizes than the first."""
    if len(rounds) < 3 or size_entropy(rounds[0], k) - size_entropy(rounds[-1], k) < config.min_entropy_drop:
        return False
    return bool(pairwise_nmi(rounds[-2:])[0, 1] >= config.converged_nmi)

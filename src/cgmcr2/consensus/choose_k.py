"""Choose the number of clusters from the data alone, before training.

Two criteria are combined; a reference then decides whether the choice is clear.

*Agreement of the views.* For each candidate k, the two linear views of ``views.py`` are partitioned by k-means after
random walks over their own neighbour graphs. With too few clusters the partitions merge groups differently, with too
many they split groups differently; at a good k the partitions of the two views agree (adjusted mutual information).

*Eigengap.* The normalised adjacency matrix of a graph with k groups has k eigenvalues near 1, followed by a gap
(von Luxburg, 2007). The gap after the k-th eigenvalue is taken relative to ``1 - w_{k+1}``.

The agreement finds the right range of k but is flat within it; the eigengap is sharp but may find the wrong range.

*Reference.* Partitions of noise agree as well, above all if there are few rows or few features. So the choice is clear
only if agreement and eigengap are significantly larger than on surrogate data without groups (``reference.py``).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from cgmcr2._files import read_json, write_json
from cgmcr2._progress import progress_bar
from cgmcr2._random import Stream, generator, sample_rows
from cgmcr2.features.sources import FeatureSource, read_rows, space_widths
from cgmcr2.graphs.spectral import leading_eigenvectors
from cgmcr2.graphs.walk import neighbour_matrix
from cgmcr2.model import unit_spaces

from .kmeans import kmeans
from .partitions import Float64, Int64, adjusted_mutual_information
from .reference import Float32, count_distinct, permuted_columns, rotated_rows
from .views import smoothed_views


@dataclasses.dataclass(frozen=True)
class ChooseKConfig:
    """Constants of the choice of k."""

    rows: int = 8_000  # sample size
    max_k: int = 300  # largest candidate
    min_rows_per_cluster: int = 5  # bounds the largest candidate on small data
    step: float = 1.15  # ratio of consecutive candidates above 12
    walk_steps: tuple[int, ...] = (4, 8)  # lengths of the random walk that smooths the views
    few_clusters: float = 1.0  # penalty few_clusters / k^2: k-means with few clusters agrees on any data
    gap_weight: float = 0.03  # weight of log(k^gap_growth x gap) relative to the agreement
    gap_growth: float = 0.25  # compensates that gaps shrink as k grows
    tolerance: float = 0.02  # scores closer than this count as equal
    min_excess: float = 1.645  # over surrogate data; one-sided 5 % quantile of the normal distribution
    surrogates: int = 4  # of each kind, averaged
    few_rows: int = 400  # one surrogate of each kind is precise enough if there are more rows
    min_distinct: int = 4  # distinct rows that the criteria need
    copy_distance: float = 1e-3  # unit rows closer than this count as equal; encoders round differently in each batch


DEFAULT = ChooseKConfig()


@dataclasses.dataclass(frozen=True)
class Choice:
    """The chosen number of clusters, its alternatives, and whether the data is clear about it.

    >>> choice = decide([2, 3, 4, 5, 6], agreement=[0.2, 0.4, 0.9, 0.6, 0.5], scores=[0.2, 0.4, 0.9, 0.6, 0.5])
    >>> choice.chosen, choice.clear
    (4, True)
    """

    candidates: tuple[int, ...]
    scores: tuple[float, ...]  # of the candidates
    agreement: tuple[float, ...]  # mean AMI between the partitions of the two views, interpolated from the grid
    chosen: int
    runners_up: tuple[
        int, ...
    ]  # up to three other local maxima of the scores, at least a factor of 1.5 apart, highest first
    clear: bool
    verdict: str  # one sentence for people

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Choice:
        """The choice from the values of ``dataclasses.asdict``, also after a round trip through JSON."""
        names = [field.name for field in dataclasses.fields(cls)]
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items() if k in names}
        return cls(**fields)

    def picture(self, width: int = 40) -> str:
        """The scores as a bar chart in text, one line per candidate.

        >>> print(decide([2, 3, 4], agreement=[0.6, 0.8, 0.7], scores=[0.2, 0.8, 0.4]).picture(width=8))
          2            0.20
          3  ████████  0.80  <- chosen
          4  ███       0.40
        """
        low, high = min(self.scores), max(self.scores)
        lines = []
        for k, score in zip(self.candidates, self.scores, strict=True):
            bar = "█" * round(width * (score - low) / max(high - low, 1e-9))
            mark = "  <- chosen" if k == self.chosen else "  <- runner-up" if k in self.runners_up else ""
            lines.append(f"{k:3}  {bar.ljust(width)}  {score:.2f}{mark}")
        return "\n".join(lines)


@torch.no_grad()
def choose_k(
    source: FeatureSource,
    *,
    most: int | None = None,
    seed: int = 0,
    config: ChooseKConfig = DEFAULT,
    progress: bool = False,
) -> Choice:
    """Choose the number of clusters of the rows of ``source (n, D)``, between 2 and ``most``; 1 if all rows are equal.

    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(300, n_features=16, centers=5, random_state=0)
    >>> choose_k(X, most=12).chosen
    5
    """
    rng = generator(seed, Stream.CHOOSE_K)
    X = read_rows(source, sample_rows(source.shape[0], config.rows, rng))
    if len(spaces := space_widths(source)) > 1:
        X = unit_spaces(torch.from_numpy(X), spaces).numpy()
    grid = candidate_grid(len(X), most, config)
    distinct = count_distinct(X, config.min_distinct, config.copy_distance)
    if distinct < config.min_distinct:
        return _choose_among_copies(len(X), distinct, most)
    neighbours, views = smoothed_views(X, config.walk_steps, seed)
    gaps = eigengaps(neighbours, grid[-1] + 1)
    grid_agreement = _view_agreement(views, grid, rng, progress)

    # of the numbers nearest to each grid value, the one of largest gap is the candidate
    edges = np.sqrt(np.multiply(grid, [*grid[1:], grid[-1] + 1]))
    cells = np.split(np.arange(2, grid[-1] + 1), np.searchsorted(np.arange(2, grid[-1] + 1), edges[:-1], side="right"))
    candidates = [int(cell[gaps[cell].argmax()]) for cell in cells]
    k = np.array(candidates, dtype=np.float64)
    agreement = np.interp(np.log(k), np.log(grid), grid_agreement)
    log_gaps = np.log(np.maximum(k**config.gap_growth * gaps[candidates], 1e-3))
    scores = agreement - config.few_clusters / k**2 + config.gap_weight * log_gaps
    choice = decide(candidates, agreement, scores, config)
    return _compare_with_noise(choice, gaps[choice.chosen], X, seed, config) if choice.clear else choice


def decide(
    candidates: Sequence[int],
    agreement: Sequence[float] | Float64,
    scores: Sequence[float] | Float64,
    config: ChooseKConfig = DEFAULT,
) -> Choice:
    """Choose the candidate of highest score.

    If candidates that differ by more than a factor of 2 have equal scores (within the tolerance), the choice is not
    clear, and the smallest of them is taken.
    """
    values = np.asarray(scores, dtype=np.float64)
    best = int(values.argmax())
    ties = [int(i) for i in np.flatnonzero(values >= values[best] - config.tolerance)]
    spread = candidates[ties[-1]] > 2 * candidates[ties[0]]
    if spread:
        best = ties[0]
    k = candidates[best]
    padded = np.concatenate([[-np.inf], values, [-np.inf]])
    peaks = np.flatnonzero((values > padded[:-2]) & (values >= padded[2:])).tolist()
    runners_up: list[int] = []
    for i in sorted(peaks, key=lambda i: -values[i]):
        distinct = all(max(candidates[i] / other, other / candidates[i]) >= 1.5 for other in [k, *runners_up])
        if distinct and len(runners_up) < 3:
            runners_up.append(candidates[i])
    alternatives = [candidates[i] for i in ties if i != best]
    if spread:
        verdict = f"No clear answer: {k} clusters fit well, but {_enumerate(alternatives)} fit about as well."
    else:
        verdict = f"{k} clusters fit best" + (
            f"; {_enumerate(alternatives)} fit about as well." if alternatives else "."
        )
    return Choice(tuple(candidates), _rounded(values), _rounded(agreement), k, tuple(runners_up), not spread, verdict)


def _compare_with_noise(choice: Choice, gap: float, X: Float32, seed: int, config: ChooseKConfig) -> Choice:
    """The choice, not clear if agreement and eigengap are not significantly larger than on data without groups."""
    k, agreement = choice.chosen, choice.agreement[choice.candidates.index(choice.chosen)]
    rng = np.random.default_rng([seed, Stream.CHOOSE_K])
    reference = np.zeros(2)  # agreement and gap
    many_columns = X.shape[1] >= len(X)  # projections of many independent columns are nearly Gaussian
    for surrogate in (rotated_rows,) if many_columns else (rotated_rows, permuted_columns):
        criteria = []
        for _ in range(config.surrogates if len(X) <= config.few_rows else 1):
            neighbours, views = smoothed_views(surrogate(X, rng), config.walk_steps, seed)
            criteria.append((_view_agreement(views, [k], rng, progress=False)[0], eigengaps(neighbours, k)[k]))
        reference = np.maximum(reference, np.mean(criteria, axis=0))
    excess = sum(standardized_excess(np.array([agreement, gap]), reference, k)) / math.sqrt(2)  # Stouffer's method
    if excess >= config.min_excess:
        return choice
    verdict = (
        f"No clear answer: {k} clusters fit best, but not significantly better than they fit random data "
        f"(AMI of the two views {agreement:.2f}, on random data {reference[0]:.2f})."
    )
    return dataclasses.replace(choice, clear=False, verdict=verdict)


def standardized_excess(values: Float64, reference: Float64, k: int) -> Float64:
    """``values - reference`` in standard deviations, for numbers between 0 and 1 that depend on k clusters.

    Such a number is treated as the share of the k clusters that are well separated. The arcsine of the square root of a
    share of k trials has a standard deviation of about ``1 / (2 sqrt(k))``, whatever the share.

    >>> standardized_excess(np.array([0.9, 0.5]), np.array([0.6, 0.5]), k=4).round(2).tolist()
    [1.45, 0.0]
    """
    angles, reference_angles = (np.arcsin(np.sqrt(np.clip(shares, 0, 1))) for shares in (values, reference))
    excess: Float64 = 2 * math.sqrt(k) * (angles - reference_angles)
    return excess


def _choose_among_copies(n: int, distinct: int, most: int | None) -> Choice:
    """The choice for n rows of which only ``distinct`` differ, fewer than the criteria need."""
    clear = n >= 2 * distinct
    k = min(distinct if clear else 2, most or distinct)
    if clear:
        verdict = "All rows are equal: 1 cluster." if distinct == 1 else f"The data has only {distinct} distinct rows."
    else:
        verdict = f"No clear answer: {n} rows are too few to choose the number of clusters from."
    return Choice((k,), (float(clear),), (float(clear),), k, (), clear, verdict)


def _enumerate(numbers: list[int]) -> str:
    return " and ".join(filter(None, [", ".join(map(str, numbers[:-1])), str(numbers[-1])]))


def _rounded(values: Sequence[float] | Float64) -> tuple[float, ...]:
    return tuple(round(float(value), 4) for value in values)


def candidate_grid(n: int, most: int | None, config: ChooseKConfig = DEFAULT) -> list[int]:
    """2, 3, ..., 12, and from there in steps of 15 %, up to ``most`` or what n rows allow."""
    if most is not None and most < 2:
        raise ValueError(f"The largest number of clusters to try must be at least 2, but is {most}.")
    last = max(2, min(config.max_k, n // config.min_rows_per_cluster) if most is None else min(most, n // 2))
    grid = [2]
    while (k := max(grid[-1] + 1, round(grid[-1] * config.step) if grid[-1] >= 12 else 0)) <= last:
        grid.append(k)
    return grid


def eigengaps(neighbours: Sequence[Int64], most: int) -> Float64:
    """(most + 1,) the relative eigengap ``(w_k - w_{k+1}) / (1 - w_{k+1})`` for each k.

    The graph joins each row with its ``neighbours (n, m)`` of every view.

    >>> triangles = np.array([[1, 2], [0, 2], [0, 1], [4, 5], [3, 5], [3, 4]])
    >>> int(eigengaps([triangles], 3)[1:].argmax()) + 1
    2
    """
    n = len(neighbours[0])
    W = sp.csr_array((n, n))
    for J in neighbours:
        A = neighbour_matrix(J)
        W = W + A + A.T
    w = leading_eigenvectors(sp.csr_array(W), min(most + 1, n), 0, tol=1e-3, dense_rows=max(600, 2 * most))[0]
    w = np.clip(w, -1, 1)
    gaps = np.zeros(most + 1)
    gaps[1 : len(w)] = (w[:-1] - w[1:]) / np.maximum(1 - w[1:], 1e-9)
    return gaps


def _view_agreement(
    views: Sequence[list[Tensor]], grid: Sequence[int], rng: np.random.Generator, progress: bool
) -> Float64:
    """For each k of the grid, the mean AMI between the partitions of one view and those of the other."""
    torch_rng = torch.Generator().manual_seed(int(rng.integers(2**31)))
    means = []
    with progress_bar(len(grid), desc="Choosing k", unit="k", enabled=progress) as bar:
        for k in grid:
            starts, best = (15, 5) if k <= 20 else (6, 2) if k <= 60 else (1, 1)  # luck matters less with many clusters
            one, other = ([p for Y in view for p in _best_kmeans(Y, k, starts, best, torch_rng)] for view in views)
            means.append(np.mean([adjusted_mutual_information(a, b, rng) for a in one for b in other]))
            bar.update(1)
    return np.array(means)


def _best_kmeans(Y: Tensor, k: int, starts: int, best: int, generator: torch.Generator) -> Int64:
    """(best, n) the k-means partitions of lowest inertia: whether bad local optima agree is luck."""
    labels, inertia = kmeans(Y, k, starts, generator)
    partitions: Int64 = labels[inertia.argsort()[:best]].numpy()
    return partitions


@dataclasses.dataclass(frozen=True)
class ChoiceRequest:
    """What a choice of k was made for."""

    data: str  # digest of the rows
    seed: int
    most: int | None = None


@dataclasses.dataclass(frozen=True)
class _ChoiceFile:
    """The content of ``choice.json``."""

    request: ChoiceRequest
    choice: Choice


def write_choice(folder: Path, choice: Choice, request: ChoiceRequest) -> None:
    """Write ``choice.json``."""
    write_json(folder / "choice.json", dataclasses.asdict(_ChoiceFile(request, choice)))


def read_choice(folder: Path, request: ChoiceRequest) -> Choice | None:
    """The choice in ``choice.json`` if it was made for the same request; None otherwise."""
    path = folder / "choice.json"
    if not path.is_file():
        return None
    try:
        content = read_json(path, _ChoiceFile, advice="delete it")
    except ValueError:  # damaged: choose again
        return None
    return content.choice if content.request == request else None

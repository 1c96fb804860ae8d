"""Choose the number of clusters from the data alone, before training.

Four criteria are combined; a reference then decides whether there are groups at all.

*Information.* For each candidate k, the two linear views of ``views.py`` are partitioned by k-means after random walks
over their own neighbour graphs. At a good k, the cluster of a row tells the clusters of its neighbours; clusters that
are split where rows are dense do not.

*Silhouette.* The same partitions are judged by the distances between the rows, before smoothing (Rousseeuw, 1987).

*Ward's heights.* A tree of the smoothed rows by Ward's criterion has a jump where groups that differ have to be merged.

*Eigengap.* The normalised adjacency matrix of a graph with k groups has k eigenvalues near 1, followed by a gap
(von Luxburg, 2007). The gap after the k-th eigenvalue is taken relative to ``1 - w_{k+1}``.

Information and silhouette find the right range of k but are flat within it; jumps and gaps are sharp but may be
elsewhere.

*Reference.* Partitions of noise have information as well, above all if there are few rows or few features. So there are
groups only if the agreement of the two views and the eigengap are significantly larger than on surrogate data without
groups (``reference.py``).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cgmcr2._files import read_json, write_json
from cgmcr2._random import Stream, generator, sample_rows
from cgmcr2.features.sources import FeatureSource, read_rows, space_widths
from cgmcr2.model import unit_spaces

from .criteria import (
    eigengaps,
    partition_criteria,
    principal_distances,
    standardized_excess,
    view_agreement,
    ward_jumps,
)
from .partitions import Float64
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
    tree_rows: int = 4_000  # sample size of Ward's tree, which takes time quadratic in it
    few_clusters: float = 2.5  # penalty few_clusters / k^2: few clusters are informative on any data
    silhouette_rows: int = 1_500  # sample size of the silhouettes, which take time quadratic in it
    silhouette_components: int = 32  # leading principal components of the unit rows, which distances are measured in
    silhouette_weight: float = 2.0  # weight of the silhouette relative to the information
    jump_weight: float = 0.5  # weight of the jump of Ward's heights relative to the information
    gap_weight: float = 0.05  # weight of log(k^gap_growth x gap) relative to the information
    gap_growth: float = 0.25  # compensates that gaps shrink as k grows
    tolerance: float = 0.06  # scores closer than this count as equal; with 0.02, wrong answers are called clear
    min_excess: float = 1.645  # over surrogate data; one-sided 5 % quantile of the normal distribution
    surrogates: int = 4  # of each kind, averaged
    few_rows: int = 400  # one surrogate of each kind is precise enough if there are more rows
    min_distinct: int = 4  # distinct rows that the criteria need
    copy_distance: float = 1e-3  # unit rows closer than this count as equal; encoders round differently in each batch


DEFAULT = ChooseKConfig()


@dataclasses.dataclass(frozen=True)
class Choice:
    """The chosen number of clusters, its alternatives, and whether the data is clear about it.

    >>> choice = decide([2, 3, 4, 5, 6], scores=[0.2, 0.4, 0.9, 0.6, 0.5])
    >>> choice.chosen, choice.clear
    (4, True)
    """

    candidates: tuple[int, ...]
    scores: tuple[float, ...]  # of the candidates
    chosen: int
    # up to three other local maxima of the scores, at least a factor of 1.5 apart, highest first
    runners_up: tuple[int, ...]
    clear: bool
    verdict: str  # one sentence for people
    noise: bool = False  # whether the groups are not significantly clearer than those of random data

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Choice:
        """The choice from the values of ``dataclasses.asdict``, also after a round trip through JSON."""
        names = [field.name for field in dataclasses.fields(cls)]
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items() if k in names}
        return cls(**fields)

    def picture(self, width: int = 40) -> str:
        """The scores as a bar chart in text, one line per candidate.

        >>> print(decide([2, 3, 4], scores=[0.2, 0.8, 0.4]).picture(width=8))
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
    jumps = ward_jumps(views, grid[-1], config.tree_rows, rng)
    torch_rng = torch.Generator().manual_seed(int(rng.integers(2**31)))
    rows = sample_rows(len(X), config.silhouette_rows, rng)
    distances = principal_distances(X[rows], config.silhouette_components, seed)
    information, silhouettes = partition_criteria(
        views, neighbours, rows, distances, grid, torch_rng, progress=progress
    )
    flat = information + config.silhouette_weight * silhouettes

    # of the numbers nearest to each grid value, the one of largest jump and gap is the candidate
    k = np.arange(2, grid[-1] + 1)
    sharp = config.jump_weight * jumps[k] + config.gap_weight * np.log(np.maximum(k**config.gap_growth * gaps[k], 1e-3))
    edges = np.sqrt(np.multiply(grid, [*grid[1:], grid[-1] + 1]))
    cells = np.split(np.arange(len(k)), np.searchsorted(k, edges[:-1], side="right"))
    best = np.array([cell[sharp[cell].argmax()] for cell in cells])
    scores = np.interp(np.log(k[best]), np.log(grid), flat) - config.few_clusters / k[best] ** 2 + sharp[best]
    choice = decide(k[best].tolist(), scores, config)
    return _compare_with_noise(choice, gaps[choice.chosen], X, views, seed, config)


def decide(candidates: Sequence[int], scores: Sequence[float] | Float64, config: ChooseKConfig = DEFAULT) -> Choice:
    """Choose the candidate of highest score.

    If candidates that differ by more than a factor of 2 have equal scores (within the tolerance), the choice is not
    clear.
    """
    values = np.asarray(scores, dtype=np.float64)
    best = int(values.argmax())
    ties = [int(i) for i in np.flatnonzero(values >= values[best] - config.tolerance)]
    spread = candidates[ties[-1]] > 2 * candidates[ties[0]]
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
        verdict = f"No clear answer: {k} clusters fit best, but {_enumerate(alternatives)} fit about as well."
    else:
        verdict = f"{k} clusters fit best" + (
            f"; {_enumerate(alternatives)} fit about as well." if alternatives else "."
        )
    return Choice(tuple(candidates), _rounded(values), k, tuple(runners_up), not spread, verdict)


def _compare_with_noise(
    choice: Choice, gap: float, X: Float32, views: list[list[Tensor]], seed: int, config: ChooseKConfig
) -> Choice:
    """The choice, marked as noise if agreement and eigengap are not significantly larger than without groups."""
    k = choice.chosen
    rng = np.random.default_rng([seed, Stream.CHOOSE_K])
    agreement = view_agreement(views, k, rng)
    reference = np.zeros(2)  # agreement and gap
    many_columns = X.shape[1] >= len(X)  # projections of many independent columns are nearly Gaussian
    for surrogate in (rotated_rows,) if many_columns else (rotated_rows, permuted_columns):
        criteria = []
        for _ in range(config.surrogates if len(X) <= config.few_rows else 1):
            neighbours, surrogate_views = smoothed_views(surrogate(X, rng), config.walk_steps, seed)
            criteria.append((view_agreement(surrogate_views, k, rng), eigengaps(neighbours, k)[k]))
        reference = np.maximum(reference, np.mean(criteria, axis=0))
    excess = sum(standardized_excess(np.array([agreement, gap]), reference, k)) / math.sqrt(2)  # Stouffer's method
    if excess >= config.min_excess:
        return choice
    verdict = (
        f"No groups were found: {k} clusters fit best, but not significantly better than they fit random data "
        f"(AMI of the two views {agreement:.2f}, on random data {reference[0]:.2f})."
    )
    return dataclasses.replace(choice, clear=False, noise=True, verdict=verdict)


def _choose_among_copies(n: int, distinct: int, most: int | None) -> Choice:
    """The choice for n rows of which only ``distinct`` differ, fewer than the criteria need."""
    clear = n >= 2 * distinct
    k = min(distinct if clear else 2, most or distinct)
    if clear:
        verdict = "All rows are equal: 1 cluster." if distinct == 1 else f"The data has only {distinct} distinct rows."
    else:
        verdict = f"No clear answer: {n} rows are too few to choose the number of clusters from."
    return Choice((k,), (float(clear),), k, (), clear, verdict)


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

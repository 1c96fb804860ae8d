"""How many clusters there are, from the data alone and before any training. Two signs are looked at together.

*Agreement.* For every candidate k the rows are partitioned by k-means from random starts, in both linear views, after
random walks over each view's neighbour graph. With too few clusters each partition joins others, with too many each
splits others; where k fits, what the one view gives comes out in the other (adjusted mutual information).

*Gap.* A graph of k groups has k eigenvalues near 1 and the next one clearly below (von Luxburg, 2007): the gap after
the k-th, as a part of what the next lacks to 1.

Agreement is right about the range and flat within it; the gap is sharp and may be wrong about the range. What was
tried, and where the three weights come from, is in docs/choose-k.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor
from tqdm.auto import tqdm

from cgmcr2.features.sources import FeatureSource, read_rows

from .kmeans import kmeans
from .smoothing import smooth_views
from .views import Int64

Float64 = npt.NDArray[np.float64]

ROWS = 8_000  # that the search looks at
MOST = 300  # clusters that it looks for, or
LEAST_MEMBERS = 5  # so many rows of the sample in each
STEP = 1.15  # from one candidate to the next, above 12
FEW = 1.0  # k-means finds few clusters alike in any data: FEW / k^2 is taken off
GAP, GROWTH = 0.03, 0.25  # weight of log(k^GROWTH gap); gaps shrink as k grows, also where they mean as much
TOLERANCE = 0.02  # nearer scores than that are as good as equal
LEAST_AGREEMENT = 0.5  # structureless data has 0.15 to 0.4


@dataclasses.dataclass(frozen=True)
class Choice:
    """Which number of clusters was chosen, from what, and whether the data is clear about it.

    >>> choice = decide([2, 3, 4, 5, 6], agreement=[0.2, 0.4, 0.9, 0.6, 0.5], scores=[0.2, 0.4, 0.9, 0.6, 0.5])
    >>> choice.chosen, choice.clear
    (4, True)
    """

    candidates: tuple[int, ...]
    scores: tuple[float, ...]  # of each candidate
    agreement: tuple[float, ...]  # the part of it that says how alike partitions came out, 0 to 1
    chosen: int
    runners_up: tuple[int, ...]  # other peaks of the scores, the highest first
    clear: bool
    verdict: str  # the same in words

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Choice:
        """The choice that was kept as ``dataclasses.asdict`` gave it, or read back from JSON."""
        names = [field.name for field in dataclasses.fields(cls)]
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items() if k in names}
        return cls(**fields)

    def picture(self, width: int = 40) -> str:
        """The scores as bars of text, a line a candidate, from the lowest to the highest.

        >>> print(decide([2, 3, 4], agreement=[0.6, 0.8, 0.7], scores=[0.2, 0.8, 0.4]).picture(width=8))
          2            0.20
          3  ████████  0.80  <- chosen
          4  ███       0.40
        """
        low, high = min(self.scores), max(self.scores)
        lines = []
        for k, score in zip(self.candidates, self.scores, strict=True):
            bar = "█" * round(width * (score - low) / max(high - low, 1e-9))
            place = "  <- chosen" if k == self.chosen else "  <- runner-up" if k in self.runners_up else ""
            lines.append(f"{k:3}  {bar.ljust(width)}  {score:.2f}{place}")
        return "\n".join(lines)


@torch.no_grad()
def choose_k(source: FeatureSource, *, most: int | None = None, seed: int = 0, progress: bool = False) -> Choice:
    """The number of clusters of the rows of ``source (n, D)``, between 2 and ``most``.

    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(300, n_features=16, centers=5, random_state=0)
    >>> choose_k(X, most=12).chosen
    5
    """
    n = source.shape[0]
    if n < 4:
        raise ValueError(f"The number of clusters cannot be found from {n} rows; give it, or at least 4 rows.")
    random = np.random.default_rng([seed, 4])
    rows = np.arange(n) if n <= ROWS else np.sort(random.choice(n, ROWS, replace=False))
    X = read_rows(source, rows)
    near, smooth = smooth_views(X, (4, 8), seed)
    grid = _grid(len(X), most)
    gaps = eigengaps(near, grid[-1] + 1)
    agreement = _agreements(smooth, grid, random, progress)

    # in each cell of the grid, the number with the largest gap stands for the others
    edges = np.sqrt(np.multiply(grid, [*grid[1:], grid[-1] + 1]))
    cells = np.split(np.arange(2, grid[-1] + 1), np.searchsorted(np.arange(2, grid[-1] + 1), edges[:-1], side="right"))
    candidates = [int(cell[gaps[cell].argmax()]) for cell in cells]
    k = np.array(candidates, dtype=np.float64)
    agreed = np.interp(np.log(k), np.log(grid), agreement)
    scores = agreed - FEW / k**2 + GAP * np.log(np.maximum(k**GROWTH * gaps[candidates], 1e-3))
    return decide(candidates, agreed, scores)


def decide(
    candidates: Sequence[int], agreement: Sequence[float] | Float64, scores: Sequence[float] | Float64
) -> Choice:
    """The highest score, the other peaks, and whether the first stands alone.

    Where numbers that differ by more than a factor of 2 score about as high, there is no clear answer, and the
    smallest of them is chosen: what a few clusters explain needs no more.
    """
    values = np.asarray(scores, dtype=np.float64)
    best = int(values.argmax())
    level = [int(i) for i in np.flatnonzero(values >= values[best] - TOLERANCE)]
    spread = candidates[level[-1]] > 2 * candidates[level[0]]
    if spread:
        best = level[0]
    k = candidates[best]
    around = np.concatenate([[-np.inf], values, [-np.inf]])
    peaks = np.flatnonzero((values > around[:-2]) & (values >= around[2:])).tolist()
    runners_up: list[int] = []
    for i in sorted(peaks, key=lambda i: -values[i]):
        apart = all(max(candidates[i] / other, other / candidates[i]) >= 1.5 for other in [k, *runners_up])
        if apart and len(runners_up) < 3:
            runners_up.append(candidates[i])
    clear = agreement[best] >= LEAST_AGREEMENT and not spread
    also = [candidates[i] for i in level if i != best]
    if agreement[best] < LEAST_AGREEMENT:
        verdict = (
            "No clear answer: whatever the number, partitions made in different ways have little in common "
            f"(agreement {agreement[best]:.2f} for {k})."
        )
    elif spread:
        verdict = f"No clear answer: {k} is the least that fits well, but {_words(also)} fit about as well."
    else:
        verdict = f"{k} clusters fit best" + (f"; {_words(also)} about as well." if also else ".")
    return Choice(tuple(candidates), _rounded(values), _rounded(agreement), k, tuple(runners_up), clear, verdict)


def _words(numbers: list[int]) -> str:
    return " and ".join(filter(None, [", ".join(map(str, numbers[:-1])), str(numbers[-1])]))


def _rounded(values: Sequence[float] | Float64) -> tuple[float, ...]:
    return tuple(round(float(value), 4) for value in values)


def _grid(n: int, most: int | None) -> list[int]:
    """2, 3, ... 12, and on in steps of 15 %."""
    if most is not None and most < 2:
        raise ValueError(f"The largest number of clusters to look for must be at least 2, but is {most}.")
    last = max(2, min(MOST, n // LEAST_MEMBERS) if most is None else min(most, n // 2))
    found = [2]
    while (k := max(found[-1] + 1, round(found[-1] * STEP) if found[-1] >= 12 else 0)) <= last:
        found.append(k)
    return found


def eigengaps(near: Sequence[Int64], most: int) -> Float64:
    """(most + 1,) for every k the gap after the k-th eigenvalue, as a part of what the next one lacks to 1.

    The graph joins each row with its neighbours ``near`` (n, m) of every view.

    >>> near = np.array([[1, 2], [0, 2], [0, 1], [4, 5], [3, 5], [3, 4]])  # two triangles
    >>> int(eigengaps([near], 3)[1:].argmax()) + 1
    2
    """
    n, m = near[0].shape
    W = sp.csr_array((n, n))
    for J in near:
        A = sp.csr_array((np.ones(n * m), J.ravel(), np.arange(n + 1) * m), (n, n))
        W = W + A + A.T
    scale = sp.diags_array(1 / np.sqrt(W.sum(axis=1)))
    M = sp.csr_array(scale @ W @ scale)
    count = most + 1
    if n <= 600 or count >= n // 2:  # Lanczos needs room; a small matrix needs no Lanczos
        w = np.linalg.eigvalsh(M.toarray())
    else:
        start = np.random.default_rng(0).standard_normal(n)
        w = np.sort(sp.linalg.eigsh(M, k=count, which="LA", return_eigenvectors=False, v0=start, tol=1e-3))  # type: ignore[call-overload]
    w = np.clip(w[::-1][:count], -1, 1)
    gaps = np.zeros(most + 1)
    gaps[1 : len(w)] = (w[:-1] - w[1:]) / np.maximum(1 - w[1:], 1e-9)
    return gaps


def _agreements(
    smooth: Sequence[list[Tensor]], grid: Sequence[int], random: np.random.Generator, progress: bool
) -> Float64:
    """For each k the mean agreement between partitions of the one view and of the other."""
    generator = torch.Generator().manual_seed(int(random.integers(2**31)))
    scores = []
    for k in tqdm(grid, desc="choosing k", disable=not progress, leave=False):
        tried, kept = (15, 5) if k <= 20 else (6, 2) if k <= 60 else (1, 1)  # with more clusters luck evens out
        one, other = ([p for Y in Ys for p in _best(Y, k, tried, kept, generator)] for Ys in smooth)
        scores.append(np.mean([adjusted_mutual_information(a, b, random) for a in one for b in other]))
    return np.array(scores)


def _best(Y: Tensor, k: int, tried: int, kept: int, generator: torch.Generator) -> Int64:
    """(kept, n) the k-means that leave the least, of those tried: whether bad ones agree is a matter of luck."""
    labels, left = kmeans(Y, k, tried, generator)
    best: Int64 = labels[left.argsort()[:kept]].numpy()
    return best


def adjusted_mutual_information(a: Int64, b: Int64, random: np.random.Generator) -> float:
    """1 for equal partitions ``a (n,)`` and ``b (n,)``, about 0 for independent ones.

    What chance gives is measured on one shuffle of ``b``: quick, and with thousands of rows exact enough.

    >>> a, b = np.repeat([0, 1, 2], 500), np.tile([0, 1, 2], 500)
    >>> random = np.random.default_rng(0)
    >>> round(adjusted_mutual_information(a, a, random), 2), abs(adjusted_mutual_information(a, b, random)) < 0.01
    (1.0, True)
    """
    most = (_entropy(a) + _entropy(b)) / 2
    chance = _mutual_information(a, random.permutation(b))
    return (_mutual_information(a, b) - chance) / max(most - chance, 1e-12)


def _mutual_information(a: Int64, b: Int64) -> float:
    return _entropy(a) + _entropy(b) - _entropy(a * (b.max() + 1) + b)


def _entropy(labels: Int64) -> float:
    shares = np.bincount(labels) / len(labels)
    shares = shares[shares > 0]
    return float(-(shares * np.log(shares)).sum())

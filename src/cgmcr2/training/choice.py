"""How many clusters there are: as many as partitions that were made in different ways agree on best.

Rows are partitioned by k-means for every candidate k, from random starts, in both linear views, after random walks of
several lengths over the neighbour graph. With too few clusters each partition joins others, with too many each splits
others; where k fits the data they come out alike, whatever view and start. Their agreement is corrected twice: for
chance (adjusted mutual information), and for what structureless data of the same shape would have, since two halves
are always found alike. No labels, no training: the search costs about as much as the start of one.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from tqdm.auto import tqdm

from cgmcr2.features.sources import FeatureSource, read_rows

from .start import Int64, among_themselves, linear_views

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]

ROWS = 3_000  # that the search looks at
MOST = 300  # clusters that it looks for, or
LEAST_MEMBERS = 5  # so many rows of the sample in each
STEP = 1.15  # from one candidate to the next, above 10
NEIGHBOURS = 10  # of each row in the graph that the features are smoothed over
WALKS = (2, 4, 8)  # steps of the random walk
DIRECTIONS = 64  # of a smoothed view that k-means sees
NULL_ROWS, NULL_TIMES = 1_500, 2  # rows of structureless data, and how often they are drawn
NULL_CANDIDATES = (2, 3, 4, 6, 12)  # beyond, structureless data agrees as much whatever k
TOLERANCE = 0.02  # of agreement: nearer scores than that are as good as equal
LEAST_AGREEMENT = 0.3  # above structureless data, for an answer to be clear


@dataclasses.dataclass(frozen=True)
class Choice:
    """Which number of clusters was chosen, from what, and whether the data is clear about it.

    >>> choice = decide([2, 3, 4, 5, 6], [0.2, 0.4, 0.9, 0.6, 0.5])
    >>> choice.chosen, choice.clear
    (4, True)
    """

    candidates: tuple[int, ...]
    scores: tuple[float, ...]  # agreement of each, above that of structureless data
    chosen: int
    runners_up: tuple[int, ...]  # other peaks of the scores, the highest first
    clear: bool
    verdict: str  # the same in words

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Choice:
        """The choice that was kept as ``dataclasses.asdict`` gave it, or read back from JSON."""
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        return cls(**fields)

    def picture(self, width: int = 40) -> str:
        """The scores as bars of text, a line a candidate.

        >>> print(decide([2, 3, 4], [0.2, 0.8, 0.4]).picture(width=8))
          2  ██        0.20
          3  ████████  0.80  <- chosen
          4  ████      0.40
        """
        top = max(max(self.scores), 1e-9)
        lines = []
        for k, score in zip(self.candidates, self.scores, strict=True):
            bar = "█" * round(width * max(score, 0) / top)
            place = "  <- chosen" if k == self.chosen else "  <- runner-up" if k in self.runners_up else ""
            lines.append(f"{k:3}  {bar.ljust(width)}  {score:.2f}{place}")
        return "\n".join(lines)


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
    candidates = _candidates(len(X), most)
    baseline = [k for k in NULL_CANDIDATES if k <= candidates[-1]]
    with tqdm(
        total=len(candidates) + NULL_TIMES * len(baseline), desc="choosing k", disable=not progress, leave=False
    ) as bar:
        scores = _agreements(X, candidates, random, bar)
        null = [_agreements(_structureless(X, random), baseline, random, bar) for _ in range(NULL_TIMES)]
    scores -= np.interp(np.log(candidates), np.log(baseline), np.mean(null, axis=0))
    return decide(candidates, scores)


def decide(candidates: Sequence[int], scores: Sequence[float] | Float64) -> Choice:
    """The highest peak of the scores, the peaks that come next, and whether the first stands alone."""
    values = np.asarray(scores, dtype=np.float64)
    best = int(values.argmax())
    k, top = candidates[best], float(values[best])
    around = np.concatenate([[-np.inf], values, [-np.inf]])
    peaks = [i for i in np.flatnonzero((values > around[:-2]) & (values >= around[2:])).tolist() if i != best]
    runners_up: list[int] = []
    for i in sorted(peaks, key=lambda i: -values[i]):
        taken = [k, *runners_up]
        if len(runners_up) < 3 and all(max(candidates[i] / t, t / candidates[i]) >= 1.5 for t in taken):
            runners_up.append(candidates[i])
    level = [candidates[i] for i in np.flatnonzero(values >= top - TOLERANCE).tolist()]
    if top < LEAST_AGREEMENT:
        verdict = (
            "No clear answer: at no number do partitions agree much more than on structureless data "
            f"(at best {top:.2f} more, for {k})."
        )
    elif level[-1] > 2 * level[0]:
        verdict = f"No clear answer: anything from {level[0]} to {level[-1]} fits about as well as {k}."
    else:
        verdict = f"{k} clusters fit best" + (f"; {level[0]} to {level[-1]} fit about as well." if level[1:] else ".")
    clear = not verdict.startswith("No")
    return Choice(tuple(candidates), tuple(round(float(v), 4) for v in values), k, tuple(runners_up), clear, verdict)


def _candidates(n: int, most: int | None) -> list[int]:
    """2, 3, ... 10, and on in steps of 15 %."""
    if most is not None and most < 2:
        raise ValueError(f"The largest number of clusters to look for must be at least 2, but is {most}.")
    last = max(2, min(MOST if most is None else most, n // LEAST_MEMBERS if most is None else n // 2))
    found = [2]
    while (k := max(found[-1] + 1, round(found[-1] * STEP) if found[-1] >= 10 else 0)) <= last:
        found.append(k)
    return found


def _agreements(X: Float32, candidates: Sequence[int], random: np.random.Generator, bar: Any) -> Float64:
    """For each candidate the mean agreement between partitions of the one view and of the other."""
    views = linear_views(X, min(256, X.shape[1]), 0).unit(torch.from_numpy(X))
    smooth = [_smoothed(view.numpy(), among_themselves(view, min(NEIGHBOURS, len(X) - 1)).numpy()) for view in views]
    scores = []
    for k in candidates:
        starts = 3 if k <= 20 else 2 if k <= 60 else 1  # more clusters need less luck to be found in part
        one, other = ([_kmeans(Y, k, random) for Y in Ys for _ in range(starts)] for Ys in smooth)
        scores.append(np.mean([adjusted_mutual_information(a, b, random) for a in one for b in other]))
        bar.update()
    return np.array(scores)


def _smoothed(X: Float32, neighbours: Int64) -> list[Float32]:
    """The unit rows ``X (n, p)`` after each number of steps of a lazy walk over the neighbour graph."""
    n, m = neighbours.shape
    W = sp.csr_array((np.ones(n * m, dtype=np.float32), neighbours.ravel(), np.arange(n + 1) * m), (n, n))
    W = W + W.T + 2 * sp.eye_array(n, dtype=np.float32)
    walk = sp.diags_array(1 / W.sum(axis=1)).astype(np.float32) @ W
    Y, kept = X[:, : 2 * DIRECTIONS], []
    for step in range(1, max(WALKS) + 1):
        Y = walk @ Y
        if step in WALKS:
            unit = Y / np.maximum(np.linalg.norm(Y, axis=1, keepdims=True), 1e-12)
            kept.append(np.ascontiguousarray(unit[:, :DIRECTIONS]))
    return kept


def _structureless(X: Float32, random: np.random.Generator) -> Float32:
    """Normally distributed rows with the mean and the covariance of the unit rows of ``X``."""
    U = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
    mean = U.mean(0)
    _, w, V = np.linalg.svd((U - mean) / np.sqrt(len(U)), full_matrices=False)
    noise = random.standard_normal((min(len(X), NULL_ROWS), len(w)), dtype=np.float32)
    return np.asarray(mean + (noise * w) @ V, dtype=np.float32)


def adjusted_mutual_information(a: Int64, b: Int64, random: np.random.Generator) -> float:
    """1 for equal partitions ``a (n,)`` and ``b (n,)``, about 0 for independent ones.

    What chance gives is measured on one shuffle of ``b``: quick, and with thousands of rows exact enough.

    >>> a, b = np.repeat([0, 1, 2], 500), np.tile([0, 1, 2], 500)
    >>> random = np.random.default_rng(0)
    >>> round(adjusted_mutual_information(a, a, random), 2), round(adjusted_mutual_information(a, b, random), 2)
    (1.0, -0.0)
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


def _kmeans(X: Float32, k: int, random: np.random.Generator) -> Int64:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct points than clusters is no fault here
        labels: Int64 = (
            KMeans(k, n_init=1, max_iter=20, random_state=int(random.integers(2**31))).fit_predict(X).astype(np.int64)
        )
    return labels

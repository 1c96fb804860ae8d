"""A first partition of the data, before any training: the consensus of many k-means on smoothed features.

One k-means is a matter of luck and of scale. Here many are run, on features that were smoothed by random walks of
several lengths over a neighbour graph, and what they agree on is found by spectral clustering of the bipartite graph
between points and clusters (Fern and Brodley, 2004). Which of the linear views is heard follows from how well the
partitions in each agree among themselves. No labels, nothing chosen by data set.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm.auto import tqdm

from .kmeans import kmeans

Int64 = npt.NDArray[np.int64]

SCALES = (5, 10)  # neighbours of each row in the graphs that the features are smoothed over
SHARED = 2  # times as many neighbours tell how alike the surroundings of two rows are
WALKS = (1, 2, 4, 8, 16)  # steps of the random walk: from local to global
STAY = 0.1  # weight of a step that stays, to all that leave
STARTS = 20  # k-means of each view, scale and walk, at most; fewer where each costs more:
BUDGET = 2_000_000  # rows times clusters in the starts of one view, scale and walk
WHITE_LOSS = 0.035  # by which the white view's partitions may agree less (whitening blows up noise) to be heard alone,
AGREED = 0.99  # mutual information, normalised, of two partitions in the mean from which on no more are made
TOLD_ROWS = 30  # rows a cluster that it takes to tell this, and whether sizes are uneven:
EVEN = 0.99  # entropy of the sizes from which on they are taken to be even
ROUNDS = 3  # times they are then partitioned with weighted rows, at most
LESS_EVEN = 0.02  # by which that entropy must fall in these,
SETTLED = 0.92  # and the mutual information, normalised, of the last two
ROWS = 4_000  # of which a k-means sees at most so many, a third of all, but at least
ROWS_EACH = 50  # a cluster,
TOGETHER = 4  # and so many k-means see the same: those that saw different rows err differently
PARTS = 4  # of the white view's partitions: what each agrees on is a candidate too, if it has ten at least;
SPLITS = 3  # times they are split so
TRUSTED = 0.5  # of the partitions are heard: those that agree best with the others
JUDGES = 1_000  # rows on which they are compared, or 20 a cluster where that is more
DENSE = 1_000  # the largest eigenproblem that is solved whole
BLOCK = 4_096  # rows that are held densely at once for it
DIRECTIONS = 128  # of a view that are smoothed


class Consensus(NamedTuple):
    """A partition of n rows, and whether it was found in the white view alone."""

    labels: Int64  # (n,)
    white: bool


def consensus(standard: Tensor, white: Tensor, near: Int64, k: int, seed: int, *, progress: bool = False) -> Consensus:
    """The partition of n rows into k clusters that many k-means agree on.

    ``standard``, ``white``: the two views (n, p) of the rows, of unit length; ``near (2, n, m)``: the nearest rows in
    each of them, nearest first. Each view is first partitioned by itself, on features smoothed over its own graph. If
    these partitions agree as well in the white view as in the standard one, it has found something that large
    directions without meaning hide there, and it is heard alone: several consensuses are made of its partitions, and
    the one of highest modularity is taken. If not, both are partitioned on features smoothed over the graph that they
    share, too, and all are heard. Where all agree from the first, that is the answer.

    k-means splits large clusters and joins small ones. So if the sizes are uneven, the consensus is sought again, with
    rows that count the more, the smaller their cluster was. If that makes the sizes more uneven, and doing so once more
    changes little, they are so in truth; if it drifts on and on, or nothing changes, the first one is kept.
    """
    n = len(standard)
    rows = min(n, max(min(n // 3, ROWS), ROWS_EACH * k))
    generator = torch.Generator().manual_seed(seed)
    starts = int(np.clip(BUDGET // (rows * k), 1, STARTS))
    first = max(1, starts // 2)
    total = 2 * len(SCALES) * len(WALKS) * (first + starts)
    with tqdm(total=total, desc="first partition", disable=not progress, unit="k-means", leave=False) as bar:

        def partitions(
            views: Sequence[Tensor], graphs: Int64, starts: int, weights: Tensor | None = None
        ) -> Iterator[Int64]:
            for Y in smoothed(views, graphs):
                for done in range(0, starts, TOGETHER):
                    together = min(TOGETHER, starts - done)
                    yield from kmeans(Y, k, together, generator, rows=rows, weights=weights)[0].numpy()
                bar.update(starts)

        alone = [list(partitions([view], near[i : i + 1], first)) for i, view in enumerate((standard, white))]
        stable = [stability(own, k) for own in alone]
        agreed = min(stable) >= AGREED
        in_white = n >= TOLD_ROWS * k and stable[1] > stable[0] - WHITE_LOSS
        if in_white:
            views, graphs, each, heard = [white], near[1:], 2 * starts, alone[1]
        else:
            views, graphs, each, heard = [standard, white], near, starts, alone[0] + alone[1]
        if not agreed:
            heard = heard + list(partitions(views, graphs, each))
        if in_white and not agreed:
            labels = most_modular(heard, near[1, :, : max(SCALES)], k, seed)
        else:
            labels = combine(trusted(heard, agreement(heard, k)), k, seed)
        if n >= TOLD_ROWS * k and evenness(labels, k) < EVEN:
            each = max(1, each // 5)
            bar.total = total + ROUNDS * each * len(views) * len(SCALES) * len(WALKS)
            found = [labels]
            for _ in range(ROUNDS):
                weights = rarity(found[-1])
                heard = list(partitions(views, graphs, each, weights))
                found.append(combine(trusted(heard, agreement(heard, k)), k, seed, weights))
                if settled(found, k):
                    labels = found[-1]
                    break
    return Consensus(labels, in_white)


def most_modular(partitions: Sequence[Int64], near: Int64, k: int, seed: int) -> Int64:
    """(n,) of the consensuses of all partitions and of random parts of them, the one of highest modularity."""
    M, random, alike = len(partitions), np.random.default_rng(seed), agreement(partitions, k)
    parts = [np.arange(M)]
    for order in (random.permutation(M) for _ in range(SPLITS if M >= 10 * PARTS else 0)):
        parts += [order[part::PARTS] for part in range(PARTS)]
    heard = ([partitions[i] for i in part.tolist()] for part in parts)
    candidates = [
        combine(trusted(own, alike[np.ix_(part, part)]), k, seed) for own, part in zip(heard, parts, strict=True)
    ]
    return max(candidates, key=lambda labels: modularity(labels, near))


def rarity(labels: Int64) -> Tensor:
    """(n,) weights of rows, 1 in the mean, that fall with the size of their cluster, faster than it grows: with its
    inverse alone, halves of a large cluster would stay as stable as they were."""
    weights = torch.from_numpy(np.bincount(labels)[labels]).float() ** -1.5
    return weights / weights.mean()


def settled(found: Sequence[Int64], k: int) -> bool:
    """Whether partitions, each with rows weighted by their rarity in the one before, became less even in their sizes
    and then, the second time or later, changed little."""
    if len(found) < 3 or evenness(found[0], k) - evenness(found[-1], k) < LESS_EVEN:
        return False
    return bool(mutual_information(list(found[-2:]))[0, 1] >= SETTLED)


def evenness(labels: Int64, k: int) -> float:
    """The entropy of the sizes of k clusters, 1 if all are the same.

    >>> round(evenness(np.array([0, 0, 1, 1]), 2), 2), round(evenness(np.array([0, 0, 0, 1]), 2), 2)
    (1.0, 0.81)
    """
    return float(_entropies(np.bincount(labels, minlength=k), len(labels), 1, k)[0] / math.log(max(k, 2)))


def smoothed(seen: Sequence[Tensor], near: Int64) -> Iterator[Tensor]:
    """Yield (n, p), of unit rows: each view after each number of steps of the walk, at each scale."""
    widths = [min(DIRECTIONS, X.shape[1]) for X in seen]
    for scale in SCALES:
        walk = random_walk(near[:, :, : SHARED * scale], scale)
        for Y in walked(walk, torch.cat([X[:, :DIRECTIONS] for X in seen], dim=1), WALKS):
            for part in torch.split(Y, widths, dim=1):
                yield F.normalize(part, dim=1)


def walked(walk: sp.csr_array, Y: Tensor, steps: Sequence[int]) -> Iterator[Tensor]:
    """Yield ``walk^t Y (n, p)`` for each number t of steps, in rising order."""
    places, rows, weights = (torch.from_numpy(part) for part in (walk.indptr[:-1], walk.indices, walk.data))
    for step in range(1, max(steps) + 1):
        # a sparse product, five times as fast as torch's and scipy's own
        Y = F.embedding_bag(rows, Y, places, mode="sum", per_sample_weights=weights)
        if step in steps:
            yield Y


def random_walk(near: Int64, scale: int) -> sp.csr_array:
    """(n, n), rows sum to 1: steps to the ``scale`` nearest rows of every view, more often to those whose own
    neighbours are the same (Jaccard index of the m + 1 nearest), whether this row names them or they name it."""
    _, n, m = near.shape
    scale = min(scale, m)
    W = sp.csr_array((n, n), dtype=np.float32)
    for J in near:
        own = np.concatenate([np.arange(n)[:, None], J], axis=1)  # (n, m + 1)
        shared = np.empty((n, scale), dtype=np.float32)
        for i in range(scale):
            other = own[J[:, i]]
            shared[:, i] = sum((own == other[:, j : j + 1]).any(1) for j in range(m + 1))
        weights = shared / (2 * (m + 1) - shared)
        W = W + sp.csr_array((weights.ravel(), J[:, :scale].ravel(), np.arange(n + 1) * scale), shape=(n, n))
    W = W + W.T
    degrees: npt.NDArray[np.float32] = np.asarray(W.sum(axis=1))
    W = sp.csr_array(W + sp.diags_array(STAY * degrees))
    return sp.csr_array(sp.diags_array(1 / ((1 + STAY) * degrees)) @ W).astype(np.float32)


def trusted(partitions: Sequence[Int64], alike: npt.NDArray[np.float64]) -> list[Int64]:
    """The partitions that agree best with all others, in their order; ``alike (M, M)`` is their ``agreement``."""
    keep = np.argsort(-alike.mean(1), kind="stable")[: math.ceil(TRUSTED * len(partitions))]
    return [partitions[i] for i in np.sort(keep)]


def stability(partitions: Sequence[Int64], k: int) -> float:
    """How well partitions agree with one another, in the mean over all pairs."""
    return float(agreement(partitions, k)[np.triu_indices(len(partitions), 1)].mean())


def agreement(partitions: Sequence[Int64], k: int) -> npt.NDArray[np.float64]:
    """(M, M) normalised mutual information of each pair of partitions into k, on some of the rows."""
    apart = max(1, len(partitions[0]) // max(JUDGES, 20 * k))
    return mutual_information([labels[::apart] for labels in partitions])


def mutual_information(partitions: list[Int64]) -> npt.NDArray[np.float64]:
    """(M, M) normalised mutual information of each pair of partitions.

    >>> a, b = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    >>> mutual_information([a, b]).round(3).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    M, n, k = len(partitions), len(partitions[0]), 1 + max(int(labels.max()) for labels in partitions)
    L = np.stack(partitions, axis=1)  # (n, M)
    places = L + k * np.arange(M)
    H = _entropies(np.bincount(places.ravel(), minlength=M * k), n, M, k)
    shared = np.empty((M, M))
    for i in range(M):
        joint = np.bincount((places + M * k * L[:, i, None]).ravel(), minlength=k * M * k)
        shared[i] = H[i] + H - _entropies(joint, n, M, k)
    result: npt.NDArray[np.float64] = 2 * shared / np.maximum(H[:, None] + H, 1e-12)
    return result


def _entropies(counts: Int64, n: int, M: int, k: int) -> npt.NDArray[np.float64]:
    """(M,) the entropy of the n rows that ``counts (... M k)`` counts for each of M partitions; most counts are 0."""
    there = np.flatnonzero(counts)
    q = counts[there] / n
    return np.asarray(np.bincount(there // k % M, weights=-q * np.log(q), minlength=M), dtype=np.float64)


def combine(partitions: Sequence[Int64], k: int, seed: int, weights: Tensor | None = None) -> Int64:
    """(n,) the partition into k that the given ones agree on best, each row counting as ``weights (n,)`` say."""
    n, M = len(partitions[0]), len(partitions)
    w = np.ones(n) if weights is None else weights.double().numpy()
    columns = np.stack([labels + i * k for i, labels in enumerate(partitions)], axis=1)  # (n, M), of c = M k clusters
    sizes = np.bincount(columns.ravel(), weights=w.repeat(M), minlength=M * k)
    entries = (np.sqrt(w)[:, None] / np.sqrt(sizes)[columns]).astype(np.float32)
    B = sp.csr_array((entries.ravel(), columns.ravel(), np.arange(n + 1) * M), shape=(n, M * k))
    m = min(n, M * k)  # the fewer of points and clusters
    if m <= max(DENSE, k + 1):
        small = _gram(B) if m < n else (B @ B.T).toarray()
        values, V = np.linalg.eigh(small.astype(np.float64))
    else:
        few, many = (B, sp.csr_array(B.T)) if m == n else (sp.csr_array(B.T), B)
        first = np.random.default_rng(seed).standard_normal(m)
        product = sp.linalg.LinearOperator((m, m), matvec=lambda x: few @ (many @ x), dtype=np.float32)
        values, V = sp.linalg.eigsh(product, k=k, which="LA", v0=first, tol=1e-4)  # ascending, as all are
    E = V[:, -k:] if m == n else B @ (V[:, -k:] / np.sqrt(np.maximum(values[-k:], 1e-9)))
    rows = F.normalize(torch.from_numpy(np.ascontiguousarray(E)).float(), dim=1)
    labels, left = kmeans(rows, k, 10, torch.Generator().manual_seed(seed), weights=weights)
    best: Int64 = labels[left.argmin()].numpy()
    return best


def _gram(B: sp.csr_array) -> npt.NDArray[np.float32]:
    """``B' B (c, c)``, by dense blocks of rows: faster than a sparse product where c is small and each row has many."""
    blocks = (torch.from_numpy(B[start : start + BLOCK].toarray()) for start in range(0, B.shape[0], BLOCK))
    return sum((block.T @ block for block in blocks), torch.zeros(B.shape[1], B.shape[1])).numpy()


def modularity(labels: Int64, near: Int64) -> float:
    """Share of the edges from each row to its ``near (n, m)`` that stay within a cluster, less what chance would keep.

    >>> near = np.array([[1], [0], [3], [2]])
    >>> modularity(np.array([0, 0, 1, 1]), near), modularity(np.array([0, 1, 0, 1]), near)
    (0.5, -0.5)
    """
    ends = labels[near]  # (n, m)
    degrees = near.shape[1] * np.bincount(labels) + np.bincount(ends.ravel(), minlength=labels.max() + 1)
    return float((ends == labels[:, None]).mean() - np.square(degrees / degrees.sum()).sum())

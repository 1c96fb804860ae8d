"""A first partition of the data, before any training: the consensus of many k-means on smoothed features.

One k-means is a matter of luck and of scale. Here many are run, in both linear views, on features that were smoothed
by random walks of several lengths over the neighbour graph, and what they agree on is found by spectral clustering of
the bipartite graph between points and clusters (Fern and Brodley, 2004). No labels, nothing chosen by data set.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from tqdm.auto import tqdm

from cgmcr2.features.sources import FeatureSource, read_rows

from .start import Int64, Views, among_themselves

Float32 = npt.NDArray[np.float32]

ROWS = 20_000  # that the partitions are made of; the others are told by their neighbours among these
SCALES = (5, 10)  # neighbours of each row in the graphs that the features are smoothed over
WALKS = (1, 2, 4, 8, 16)  # steps of the random walk: from local to global
STARTS = 8  # k-means of each view, scale and walk, at most; fewer where each costs more:
BUDGET = 400_000  # rows times clusters in the starts of one view, scale and walk
TRUSTED = 0.5  # of the partitions are heard: those that agree best with the others
DENSE = 3_000  # the largest eigenproblem that is solved whole
DIRECTIONS = 128  # of a view that are smoothed
VOTERS = 10  # neighbours that tell the cluster of a row, in each view


def consensus_labels(
    source: FeatureSource,
    views: Views,
    k: int,
    seed: int,
    neighbours: Int64 | None = None,
    *,
    progress: bool = False,
) -> Int64:
    """(n,) one of k clusters for each row of ``source``; ``neighbours`` as ``nearest_neighbours`` found them."""
    n = source.shape[0]
    random = np.random.default_rng([seed, 3])
    rows = np.arange(n) if n <= ROWS else np.sort(random.choice(n, ROWS, replace=False))
    seen = views.unit(torch.from_numpy(read_rows(source, rows)))
    m = min(max(SCALES), len(rows) - 1)
    if neighbours is not None and len(rows) == n and neighbours.shape[1] >= 2 * m:
        near = np.split(neighbours, 2, axis=1)
    else:
        near = [among_themselves(X, m).numpy() for X in seen]
    starts = int(np.clip(BUDGET // (len(rows) * k), 1, STARTS))
    total = len(seen) * len(SCALES) * len(WALKS) * starts
    with tqdm(total=total, desc="first partition", disable=not progress, unit="k-means", leave=False) as bar:
        partitions = []
        for X, J in zip(seen, near, strict=True):
            for labels in smoothed_partitions(X.numpy(), J, k, starts, random):
                partitions.append(labels)
                bar.update()
    chosen = combine(trusted(partitions), k, int(random.integers(2**31)))
    if len(rows) == n:
        return chosen
    labels = np.empty(n, dtype=np.int64)
    for start in range(0, n, 8192):
        block = views.unit(torch.from_numpy(read_rows(source, slice(start, start + 8192))))
        nearest = torch.cat([(A @ B.T).topk(VOTERS, dim=1).indices for A, B in zip(block, seen, strict=True)], dim=1)
        votes = torch.nn.functional.one_hot(torch.from_numpy(chosen)[nearest], k).sum(1)  # (b, k)
        labels[start : start + 8192] = votes.argmax(1).numpy()
    labels[rows] = chosen
    return labels


def smoothed_partitions(
    X: Float32, neighbours: Int64, k: int, starts: int, random: np.random.Generator
) -> Iterator[Int64]:
    """Partitions of the unit rows ``X (n, p)``: k-means, ``starts`` times after each number of steps of a lazy walk.

    ``neighbours (n, m)``: of each row, nearest first.
    """
    n = len(X)
    for scale in SCALES:
        near = neighbours[:, :scale]
        W = sp.csr_array((np.ones(near.size, dtype=np.float32), near.ravel(), np.arange(n + 1) * near.shape[1]), (n, n))
        W = W + W.T + 2 * sp.eye_array(n, dtype=np.float32)
        walk = sp.diags_array(1 / W.sum(axis=1)).astype(np.float32) @ W
        Y = X[:, :DIRECTIONS]
        for step in range(1, max(WALKS) + 1):
            Y = walk @ Y
            if step in WALKS:
                unit = Y / np.maximum(np.linalg.norm(Y, axis=1, keepdims=True), 1e-12)
                for _ in range(starts):
                    yield _kmeans(unit, k, random, n_init=1)


def trusted(partitions: list[Int64]) -> list[Int64]:
    """The partitions that agree best with all others, by normalised mutual information, in their order."""
    agreement = mutual_information(partitions).mean(1)
    keep = np.sort(np.argsort(-agreement, kind="stable")[: math.ceil(TRUSTED * len(partitions))])
    return [partitions[i] for i in keep]


def mutual_information(partitions: list[Int64]) -> npt.NDArray[np.float64]:
    """(M, M) normalised mutual information of each pair of partitions.

    >>> a, b = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    >>> mutual_information([a, b]).round(3).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    M, n, k = len(partitions), len(partitions[0]), 1 + max(int(labels.max()) for labels in partitions)
    B = _memberships(partitions, k)
    own = np.asarray(B.sum(axis=0)).reshape(M, k) / n
    H = _entropy(own, (1,))
    shared = np.empty((M, M))
    for i in range(M):
        joint = (B[:, i * k : (i + 1) * k].T @ B).toarray().reshape(k, M, k) / n
        shared[i] = H[i] + H - _entropy(joint, (0, 2))
    result: npt.NDArray[np.float64] = 2 * shared / np.maximum(H[:, None] + H, 1e-12)
    return result


def _entropy(q: npt.NDArray[np.float64], axes: tuple[int, ...]) -> npt.NDArray[np.float64]:
    terms: npt.NDArray[np.float64] = -(q * np.log(np.maximum(q, 1e-300))).sum(axes)
    return terms


def combine(partitions: list[Int64], k: int, seed: int) -> Int64:
    """(n,) the partition into k that the given ones agree on best."""
    B = _memberships(partitions, 1 + max(int(labels.max()) for labels in partitions))
    sizes = np.asarray(B.sum(axis=0)).ravel()
    B = B[:, sizes > 0] @ sp.diags_array(1 / np.sqrt(sizes[sizes > 0]))
    if min(B.shape) <= max(DENSE, k + 1):
        small = B if B.shape[0] <= B.shape[1] else B.T
        w, V = np.linalg.eigh((small @ small.T).toarray())
        E = V[:, -k:] if small is B else B @ (V[:, -k:] / np.sqrt(np.maximum(w[-k:], 1e-9)))
    else:
        first = np.random.default_rng(seed).standard_normal(B.shape[1])
        w, V = sp.linalg.eigsh(B.T @ B, k=k, which="LA", v0=first, tol=1e-4)
        E = B @ (V / np.sqrt(np.maximum(w, 1e-9)))
    E = E / np.maximum(np.linalg.norm(E, axis=1, keepdims=True), 1e-12)
    return _kmeans(E, k, np.random.default_rng(seed), n_init=10)


def _memberships(partitions: list[Int64], k: int) -> sp.csr_array:
    """(n, M k) with a one where a point is in a cluster of a partition."""
    n, M = len(partitions[0]), len(partitions)
    columns = np.stack([labels + i * k for i, labels in enumerate(partitions)], axis=1)  # (n, M)
    return sp.csr_array((np.ones(n * M), columns.ravel(), np.arange(n + 1) * M), shape=(n, M * k))


def _kmeans(X: npt.NDArray[Any], k: int, random: np.random.Generator, n_init: int) -> Int64:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct points than clusters is no fault here
        model = KMeans(k, n_init=n_init, max_iter=30 if n_init == 1 else 300, random_state=int(random.integers(2**31)))
        labels: Int64 = model.fit_predict(X).astype(np.int64)
    return labels

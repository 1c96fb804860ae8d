"""Groups of duplicate images: files with the same bytes, and images with nearly the same features."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import xxhash
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from cgmcr2._arrays import unit_rows
from cgmcr2.images import Catalog, ImageItem

_BLOCK_ENTRIES = 2**22  # similarities held at once: 16 MB of float32
_BLOCK_BYTES = 2**20  # bytes of a file hashed at once


@dataclasses.dataclass(frozen=True)
class NearDuplicateConfig:
    """When two rows are near-duplicates: chosen on photographs, digits and eight data sets, see ``near_duplicates``."""

    similarity: float = 0.9  # least cosine similarity: different photographs have at most 0.85
    ratio: float = 0.1  # largest squared distance, relative to that of the reference neighbour
    neighbours: int = 100  # rank of the reference neighbour, beyond most groups of duplicates
    quantile: float = 0.1  # its largest rank relative to n, so that it is local in small data too
    sample: int = 4096  # evenly spaced rows among which it is searched
    rounding: float = 1e-5  # squared distance up to which rows are equal


def exact_duplicates(catalog: Catalog) -> npt.NDArray[np.int64]:
    """Group images with the same bytes; only files of equal size are read.

    Returns
    -------
    groups : ndarray of shape (n,)
        Index of the first image with the same content; that of the image itself if it is unique or cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name, text in (("a", "x"), ("b", "y"), ("c", "x")):
    ...     _ = (folder / name).write_text(text)
    >>> exact_duplicates(Catalog.from_source(folder)).tolist()
    [0, 1, 0]
    """
    groups = np.arange(len(catalog))
    counts: dict[int, int] = defaultdict(int)
    for size in catalog.sizes.tolist():
        counts[size] += 1
    first: dict[tuple[int, bytes], int] = {}
    for item in catalog:  # in order, as compressed archives need
        if item.size and counts[item.size] > 1:
            try:
                key = (item.size, _content_digest(item))
            except Exception:  # noqa: S112 - damaged archives raise nearly any type; embedding reports the image
                continue
            groups[item.index] = first.setdefault(key, item.index)
    return groups


def _content_digest(item: ImageItem) -> bytes:
    state = xxhash.xxh3_128()
    data = item.load()
    if isinstance(data, np.ndarray):
        state.update(np.ascontiguousarray(data).data)
        return state.digest()
    with data:
        while block := data.read(_BLOCK_BYTES):
            state.update(block)
    return state.digest()


@torch.no_grad()
def near_duplicates(
    X: npt.NDArray[np.floating[Any]], config: NearDuplicateConfig | None = None
) -> npt.NDArray[np.int64]:
    """Group images with nearly the same features, such as edited copies of a photo or the frames of a burst.

    Rows i and j are near-duplicates if their cosine similarity is at least ``similarity`` and

        |x_i - x_j|^2 <= ratio * min(r_i, r_j)

    where r_i is the squared distance of x_i, scaled to unit length, to its reference neighbour: the 100th nearest one.
    So digits, which are all similar, are not merged. Groups are the connected components. Groups of more than 100
    different copies are not found. Features should come from an image encoder: in other data, such as small and very
    tight clusters of points, a cluster cannot be distinguished from a group of copies.

    No n x n array is held; the cost is n^2 D / 2 multiplications.

    Parameters
    ----------
    X : ndarray of shape (n, D)
        Features.
    config : NearDuplicateConfig, optional
        Thresholds.

    Returns
    -------
    groups : ndarray of shape (n,)
        First row of the group of each row.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 64))
    >>> X[150] = X[3] + 0.01
    >>> groups = near_duplicates(X)
    >>> int(groups[150]), len(set(groups.tolist()))
    (3, 199)
    """
    config = config or NearDuplicateConfig()
    if X.ndim != 2:
        raise ValueError(f"Features must have shape (n_samples, n_features), but have {X.shape}.")
    n = len(X)
    groups = np.arange(n)
    if n < 2:
        return groups
    Z = torch.from_numpy(np.ascontiguousarray(unit_rows(np.asarray(X, dtype=np.float32))))
    for pairs in _close_pairs(Z, _largest_distances(Z, config)):
        groups = _merge(groups, pairs)
    return groups


def _largest_distances(Z: torch.Tensor, config: NearDuplicateConfig) -> torch.Tensor:
    """Squared distance up to which another row is a near-duplicate of each row, shape (n,)."""
    n = len(Z)
    sample = Z[np.unique(np.linspace(0, n - 1, min(n, config.sample)).round().astype(np.int64))]  # (m, D)
    rank = min(config.neighbours, config.quantile * (n - 1)) * len(sample) / n
    rank = max(1, round(rank)) + (len(sample) == n)  # one more for the row itself, if all rows are in the sample
    reference = torch.empty(n)
    step = max(1, _BLOCK_ENTRIES // len(sample))
    for start in range(0, n, step):
        similarity = Z[start : start + step] @ sample.T  # (step, D) x (D, m) -> (step, m)
        reference[start : start + step] = 2 - 2 * similarity.topk(rank, dim=1).values[:, -1]
    largest = max(2 - 2 * config.similarity, config.rounding)
    return (config.ratio * reference).clamp(config.rounding, largest)


def _close_pairs(Z: torch.Tensor, distance: torch.Tensor) -> Iterator[npt.NDArray[np.int64]]:
    """Yield pairs of rows (2, m) whose squared distance is at most ``distance`` (n,) of both."""
    n = len(Z)
    least = 1 - distance / 2  # cosine similarity
    step = max(1, _BLOCK_ENTRIES // n)
    for start in range(0, n, step):
        similarity = Z[start : start + step] @ Z[start:].T  # (step, D) x (D, n - start) -> (step, n - start)
        close = similarity >= torch.maximum(least[start : start + step, None], least[start:])
        pairs = close.triu(1).nonzero().T  # (2, m)
        if pairs.shape[1]:
            yield pairs.numpy() + start


def _merge(groups: npt.NDArray[np.int64], pairs: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Merge the groups (n,) of the rows of each pair; the number of a group is its first row."""
    n = len(groups)
    rows, columns = groups[pairs]
    _, component = connected_components(coo_array((np.ones(len(rows), bool), (rows, columns)), (n, n)), directed=False)
    first = np.full(n, n)
    np.minimum.at(first, component, np.arange(n))
    merged: npt.NDArray[np.int64] = first[component][groups]
    return merged

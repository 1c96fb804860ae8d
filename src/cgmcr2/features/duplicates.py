"""Groups of duplicate images: files with the same bytes, and images with nearly the same features."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
import xxhash
from torch import Tensor

from cgmcr2._files import read_json, write_json
from cgmcr2._progress import progress_bar
from cgmcr2.features.sources import FeatureSource, Subset, read_rows, space_widths
from cgmcr2.images import Catalog, ImageItem
from cgmcr2.model import unit_spaces

Int64 = npt.NDArray[np.int64]

FILE_NAME = "duplicates.json"

_BLOCK_BYTES = 2**20  # bytes of a file hashed at once
_MIN_GROUPS = 4  # fewer distinct rows are too few to choose k from, or to train on


@dataclasses.dataclass(frozen=True)
class NearDuplicateConfig:
    """When two rows are near-duplicates: chosen on photographs and twelve sets of features of image encoders."""

    similarity: float = 0.9  # least cosine similarity: different photographs have at most 0.85
    ratio: float = 0.15  # largest squared distance, relative to that of the reference neighbour
    neighbours: int = 100  # rank of the reference neighbour, beyond most groups of duplicates
    quantile: float = 0.1  # its largest rank relative to n, so that it is local in small data too
    sample: int = 4096  # evenly spaced rows among which it is searched
    rounding: float = 1e-5  # squared distance up to which rows are equal
    components: int = 64  # of the rows that are compared first; the pairs that pass are compared in full
    tile: int = 2048  # rows compared at once with as many others: 16 MB of similarities
    pairs: int = 2**15  # pairs compared in full at once


def exact_duplicates(catalog: Catalog) -> Int64:
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
    source: FeatureSource, config: NearDuplicateConfig | None = None, *, progress: bool = False
) -> Int64:
    """Group images with nearly the same features, such as edited copies of a photo or the frames of a burst.

    Rows i and j are near-duplicates if their cosine similarity is at least ``similarity`` and::

        |x_i - x_j|^2 <= ratio * min(r_i, r_j)

    where r_i is the squared distance of x_i, scaled to unit length, to its reference neighbour: the 100th nearest one.
    So digits, which are all similar, are not merged. Groups are the connected components. Groups of more than 100
    different copies are not found. Features should come from an image encoder: in other data, such as small and very
    tight clusters of points, a cluster cannot be distinguished from a group of copies.

    No n x n array is held. All pairs are compared, but only in ``components`` principal components, where no pair is
    farther apart than in all D features; the pairs that are close there are compared in full. The cost is about
    n^2 components / 2 + n sample D multiplications.

    Parameters
    ----------
    source : features of shape (n, D)
        An array, or any other source of rows; it need not fit into memory.
    config : NearDuplicateConfig, optional
        Thresholds.
    progress : bool
        Show a progress bar.

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
    if len(source.shape) != 2:
        raise ValueError(f"Features must have shape (n_samples, n_features), but have {tuple(source.shape)}.")
    n = source.shape[0]
    groups = np.arange(n)
    if n < 2:
        return groups
    Y, distance = _reduced_rows(source, config)
    least = 1 - distance / 2  # cosine similarity from which another row is a near-duplicate
    for candidates in _close_pairs(Y, least, config.tile, progress):
        for start in range(0, candidates.shape[1], config.pairs):
            pairs = candidates[:, start : start + config.pairs]
            pairs = pairs[:, groups[pairs[0]] != groups[pairs[1]]]
            if not pairs.shape[1]:
                continue
            rows, index = np.unique(pairs, return_inverse=True)
            Z = _unit(source, rows)
            one, other = index.reshape(pairs.shape)
            similarity = torch.einsum("md,md->m", Z[one], Z[other])
            close = similarity >= torch.maximum(least[pairs[0]], least[pairs[1]])
            groups = _merge(groups, pairs[:, close.numpy()])
    return groups


def _unit(source: FeatureSource, rows: Int64 | slice) -> Tensor:
    return unit_spaces(torch.from_numpy(read_rows(source, rows)), space_widths(source))


def _reduced_rows(source: FeatureSource, config: NearDuplicateConfig) -> tuple[Tensor, Tensor]:
    """Unit rows (n, p + 1) of which no pair is less similar than the full rows, and each row's largest distance (n,).

    A reduced row has p principal components and the length of the rest. The distance is the squared distance up to
    which another row is a near-duplicate.
    """
    n, D = source.shape
    sample = _unit(source, np.unique(np.linspace(0, n - 1, min(n, config.sample)).round().astype(np.int64)))  # (m, D)
    rank = min(config.neighbours, config.quantile * (n - 1)) * len(sample) / n
    rank = max(1, round(rank)) + (len(sample) == n)  # one more for the row itself, if all rows are in the sample
    largest = max(2 - 2 * config.similarity, config.rounding)
    reduce = n > config.tile and config.components + 1 < D
    basis = torch.linalg.eigh(sample.T @ sample).eigenvectors[:, -config.components :] if reduce else None  # (D, p)
    Y = torch.empty(n, config.components + 1 if reduce else D)
    reference = torch.empty(n)
    for start in range(0, n, config.tile):
        rows = slice(start, start + config.tile)
        Z = _unit(source, rows)
        reference[rows] = 2 - 2 * (Z @ sample.T).topk(rank, dim=1).values[:, -1]  # (tile, D) x (D, m) -> (tile, m)
        if basis is None:
            Y[rows] = Z
        else:
            Y[rows, :-1] = Z @ basis  # (tile, D) x (D, p) -> (tile, p)
            Y[rows, -1] = (Z.square().sum(1) - Y[rows, :-1].square().sum(1)).clamp_min(0).sqrt()
    return Y, (config.ratio * reference).clamp(config.rounding, largest)


def _close_pairs(Y: Tensor, least: Tensor, tile: int, progress: bool) -> Iterator[Int64]:
    """Yield pairs of rows (2, m), the first one smaller, whose similarity in ``Y`` is at least ``least`` of both."""
    n = len(Y)
    least = least - 1e-6  # the reduced rows are rounded too
    tiles = [(start, other) for start in range(0, n, tile) for other in range(start, n, tile)]
    with progress_bar(len(tiles), desc="Finding near-duplicates", unit="blocks", enabled=progress) as bar:
        for start, other in tiles:
            similarity = Y[start : start + tile] @ Y[other : other + tile].T  # (tile, p) x (p, tile) -> (tile, tile)
            i, j = (similarity >= least[start : start + tile, None]).nonzero().T
            i, j, similarity = i + start, j + other, similarity[i, j]
            close = (similarity >= least[j]) & (i < j)
            if close.any():
                yield torch.stack([i[close], j[close]]).numpy()
            bar.update()


def _merge(groups: Int64, pairs: Int64) -> Int64:
    """Merge the groups (n,) of the rows of each pair; the number of a group is its first row."""
    from scipy.sparse import coo_array  # importing SciPy would slow down the start of predict
    from scipy.sparse.csgraph import connected_components

    n = len(groups)
    rows, columns = groups[pairs]
    _, component = connected_components(coo_array((np.ones(len(rows), bool), (rows, columns)), (n, n)), directed=False)
    first = np.full(n, n)
    np.minimum.at(first, component, np.arange(n))
    merged: Int64 = first[component][groups]
    return merged


def find_groups(source: FeatureSource, ids: Sequence[str], catalog: Catalog, *, progress: bool = False) -> Int64:
    """Group exact and near-duplicates among the images ``ids`` of ``catalog``, whose features are ``source (n, D)``.

    Returns
    -------
    groups : ndarray of shape (n,)
        First row of the group of each row.
    """
    exact = exact_duplicates(catalog)[[catalog.positions[id] for id in ids]]
    _, first, inverse = np.unique(exact, return_index=True, return_inverse=True)
    distinct, inverse = np.sort(first), np.argsort(np.argsort(first))[inverse]
    near = near_duplicates(Subset(source, distinct), progress=progress)
    groups: Int64 = distinct[near][inverse]
    return groups


def distinct_rows(groups: Int64, k: int = 1) -> Int64:
    """The first row of each group; all rows if there are fewer than 4 groups, or fewer than ``k``.

    >>> distinct_rows(np.array([0, 1, 0, 3, 4, 4])).tolist()
    [0, 1, 3, 4]
    >>> distinct_rows(np.array([0, 1, 0, 3, 4, 4]), k=5).tolist()
    [0, 1, 2, 3, 4, 5]
    """
    rows: Int64 = np.unique(groups)
    return rows if len(rows) >= max(k, _MIN_GROUPS) else np.arange(len(groups))


@dataclasses.dataclass(frozen=True)
class _GroupsFile:
    """The content of ``duplicates.json``."""

    data: str  # digest of the features
    rows: int
    groups: list[list[int]]  # rows of each group of two or more, ascending
    checksum: str  # of the groups, because the file is read before a run is sealed


def write_groups(folder: Path, groups: Int64, data: str) -> None:
    """Write the groups (n,) of the rows with the digest ``data`` to ``duplicates.json``."""
    members = defaultdict(list)
    for row in np.flatnonzero(np.bincount(groups, minlength=len(groups))[groups] > 1).tolist():
        members[int(groups[row])].append(row)
    content = _GroupsFile(data, len(groups), list(members.values()), _checksum(groups))
    write_json(folder / FILE_NAME, dataclasses.asdict(content))


def read_groups(folder: Path, data: str | None) -> Int64 | None:
    """The groups (n,) in ``duplicates.json`` if they are those of the rows with the digest ``data``; None otherwise.

    None also if the file is damaged: the groups can be found again.
    """
    path = folder / FILE_NAME
    if not path.is_file():
        return None
    try:
        content = read_json(path, _GroupsFile, advice="delete it")
        if content.data != data:
            return None
        groups = np.arange(content.rows)
        for rows in content.groups:
            groups[rows] = rows[0]
    except (ValueError, IndexError):  # damaged
        return None
    return groups if content.checksum == _checksum(groups) else None


def _checksum(groups: Int64) -> str:
    return xxhash.xxh3_128(np.ascontiguousarray(groups, dtype=np.int64).data).hexdigest()

"""Two-dimensional map of the embedding, with bounded time and memory."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from cgmcr2._random import sample_rows

Method = Literal["auto", "pca", "tsne", "umap"]

BLOCK_ROWS = 8_192  # rows transformed at once, to bound memory
MIN_NEIGHBOUR_ROWS = 10  # t-SNE and UMAP need neighbourhoods; fewer rows are mapped with PCA
DISC_SCALE = 0.35  # of the discs' radii; together the discs cover 0.38 of the unit square


def project(
    embedding: NDArray[Any],
    method: Method = "auto",
    *,
    seed: int = 0,
    max_landmarks: int = 1_500,
    max_pca_rows: int = 20_000,
) -> NDArray[np.float32]:
    """Positions (n, 2) of the rows of ``embedding (n, d)`` in the unit square.

    "pca" shows the first two principal components. "tsne" (the default from 10 rows on) and "umap" (needs
    ``cgmcr2[viz]``) preserve neighbourhoods. They lay out a random sample of landmark rows; every other row is placed
    around its nearest landmark. Overlapping points are then pushed apart, so that the area of a group grows with its
    size.

    Parameters
    ----------
    embedding : (n, d)
    method : "auto" is "tsne"
    seed : random seed; results are reproducible on the same machine
    max_landmarks : rows laid out by t-SNE or UMAP; 1,500 take about 6 s on one core
    max_pca_rows : rows that the principal components are computed from

    >>> rng = np.random.default_rng(0)
    >>> project(rng.standard_normal((100, 16)), "pca").shape
    (100, 2)
    """
    if method not in get_args(Method):
        raise ValueError(f"Unknown map method {method!r}; choose from {', '.join(get_args(Method))}.")
    if embedding.ndim != 2:
        raise ValueError(f"A map needs an embedding of shape (n, d), but got shape {embedding.shape}.")
    n = len(embedding)
    components = _principal_components(embedding, 2 if method == "pca" else 50, max_pca_rows, seed)
    if method == "pca" or n < MIN_NEIGHBOUR_ROWS or not components.any():  # identical rows have no neighbourhoods
        return _fit_unit_square(components[:, :2])
    landmarks = sample_rows(n, max_landmarks, np.random.default_rng(seed))
    layout = _umap if method == "umap" else _tsne
    positions = _fit_unit_square(layout(components[landmarks], seed))
    nearest, distance = _nearest_landmark(components, components[landmarks])
    radii = DISC_SCALE * np.sqrt(np.bincount(nearest, minlength=len(landmarks)) / n)
    return _fit_unit_square(_fill_discs(_push_apart(positions, radii, seed), radii, nearest, distance))


def _principal_components(
    embedding: NDArray[Any], count: int, max_rows: int, seed: int, block_rows: int = BLOCK_ROWS
) -> NDArray[np.float32]:
    """The first ``count`` principal components (n, count), at least two; missing dimensions are zero."""
    from sklearn.decomposition import PCA

    n, d = embedding.shape
    components = np.zeros((n, max(2, min(count, d))), dtype=np.float32)
    if n < 2:
        return components
    rows = sample_rows(n, max_rows, np.random.default_rng(seed))
    with np.errstate(invalid="ignore"):  # identical rows: the explained variance ratio, which is not used, is 0 / 0
        pca = PCA(min(count, d, n), random_state=seed).fit(np.asarray(embedding[rows], dtype=np.float32))
    for start in range(0, n, block_rows):
        block = pca.transform(np.asarray(embedding[start : start + block_rows], dtype=np.float32))
        components[start : start + block_rows, : block.shape[1]] = block
    return components


def _tsne(points: NDArray[np.float32], seed: int) -> NDArray[np.float32]:
    from sklearn.manifold import TSNE

    m = len(points)
    positions: NDArray[np.float32] = TSNE(
        2,
        perplexity=min(30.0, (m - 1) / 3),
        init="pca",
        learning_rate="auto",
        max_iter=500,
        random_state=seed,
        method="exact" if m <= 300 else "barnes_hut",  # Barnes-Hut is slower on few rows
    ).fit_transform(points)
    return positions


def _umap(points: NDArray[np.float32], seed: int) -> NDArray[np.float32]:
    try:
        import umap
    except ImportError as error:
        raise ImportError(
            "The UMAP map needs umap-learn; install it with: pip install 'cgmcr2[viz]', or choose tsne or pca."
        ) from error
    reducer = umap.UMAP(n_neighbors=min(15, len(points) - 1), random_state=seed, n_jobs=1)
    positions: NDArray[np.float32] = reducer.fit_transform(points)
    return positions


def _nearest_landmark(
    points: NDArray[np.float32], landmarks: NDArray[np.float32], block_rows: int = BLOCK_ROWS
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Index of the nearest landmark of each point, (n,), and the squared distance to it, (n,)."""
    squares = np.einsum("md,md->m", landmarks, landmarks)
    nearest, least = np.empty(len(points), np.int64), np.empty(len(points), np.float32)
    for start in range(0, len(points), block_rows):
        block = slice(start, start + block_rows)
        distance = squares - 2 * points[block] @ landmarks.T  # (b, m), without the squared norm of the point
        nearest[block] = distance.argmin(axis=1)
        least[block] = distance.min(axis=1) + np.einsum("bd,bd->b", points[block], points[block])
    return nearest, least


def _push_apart(
    positions: NDArray[np.float32], radii: NDArray[np.float64], seed: int, rounds: int = 120
) -> NDArray[np.float32]:
    """Move discs until few overlap; well separated clusters would otherwise be dense balls in empty space."""
    from scipy.spatial import cKDTree

    m = len(positions)
    noise = np.random.default_rng(seed).normal(0, 1e-3 / np.sqrt(m), (m, 2))  # separates identical positions
    points = positions + noise
    for _ in range(rounds):
        first, second = cKDTree(points).query_pairs(2 * radii.max(), output_type="ndarray").T
        difference = points[first] - points[second]
        distance = np.maximum(np.linalg.norm(difference, axis=1), 1e-9)
        overlap = np.maximum(radii[first] + radii[second] - distance, 0)
        push = difference * (overlap / distance / 2)[:, None]
        moves = np.stack([np.bincount(first, push[:, x], m) - np.bincount(second, push[:, x], m) for x in (0, 1)], 1)
        overlaps = np.bincount(first, overlap > 0, m) + np.bincount(second, overlap > 0, m)
        points += moves / np.sqrt(np.maximum(overlaps, 1))[:, None]  # damped, because pushes add up in a crowd
    return points.astype(np.float32)


def _fill_discs(
    centres: NDArray[np.float32], radii: NDArray[np.float64], nearest: NDArray[np.int64], distance: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Positions (n, 2) along a Fermat spiral in the disc of each point's landmark, the nearest points innermost."""
    order = np.lexsort((distance, nearest))
    counts = np.bincount(nearest, minlength=len(centres))
    rank = np.arange(len(nearest)) - np.repeat(np.cumsum(counts) - counts, counts)  # 0, 1, ... within each disc
    radius = radii[nearest[order]] * np.sqrt(rank / counts[nearest[order]])
    angle = rank * np.pi * (3 - np.sqrt(5))  # golden angle
    positions = np.empty((len(nearest), 2), dtype=np.float32)
    positions[order] = centres[nearest[order]] + radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return positions


def _fit_unit_square(positions: NDArray[np.float32]) -> NDArray[np.float32]:
    """Centre and scale positions (n, 2) to the unit square, keeping their aspect ratio."""
    if len(positions) == 0:
        return positions
    low, high = positions.min(axis=0), positions.max(axis=0)
    span = float((high - low).max()) or 1.0
    scaled: NDArray[np.float32] = (positions - (low + high) / 2) / np.float32(span) + np.float32(0.5)
    return scaled

"""A map of the embedding: its rows as points in the plane, in seconds for any number of rows."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Method = Literal["auto", "pca", "tsne", "umap"]

LANDMARKS = 1_500  # the time of t-SNE grows faster than n: 1,500 rows take some 6 s on one slow core
PCA_ROWS = 20_000  # enough for the directions of a few dozen components
CHUNK = 8_192


def project(embedding: NDArray[Any], method: Method = "auto", *, seed: int = 0) -> NDArray[np.float32]:
    """Positions (n, 2) of the rows of an embedding (n, d), each axis in 0 ... 1; same input and seed, same positions.

    "pca" shows the two directions of largest spread. "tsne", which "auto" chooses from 10 rows on, and "umap", which
    needs ``cgmcr2[viz]``, keep neighbours together: they lay out at most 1,500 landmark rows, drawn at random, so that
    time and memory stay bounded; every other row lies close around its nearest landmark. Points are then pushed apart
    where they would cover one another, so that the area of a group tells how many it holds.

    >>> rng = np.random.default_rng(0)
    >>> project(rng.standard_normal((100, 16)), "pca").shape
    (100, 2)
    """
    if method not in ("auto", "pca", "tsne", "umap"):
        raise ValueError(f"There is no map called {method!r}: choose auto, pca, tsne or umap.")
    if embedding.ndim != 2:
        raise ValueError(f"An embedding of shape (n, d) is needed for a map, not {embedding.shape}.")
    n = len(embedding)
    components = _principal_components(embedding, 2 if method == "pca" else 50, seed)
    if method == "pca" or n < 10 or not components.any():  # equal rows have no neighbours to keep
        return _unit_square(components[:, :2])
    rng = np.random.default_rng(seed)
    landmarks = np.arange(n) if n <= LANDMARKS else np.sort(rng.choice(n, LANDMARKS, replace=False))
    layout = _umap if method == "umap" else _tsne
    positions = _unit_square(layout(components[landmarks], seed))
    nearest, distance = _nearest(components, components[landmarks])
    radii = 0.35 * np.sqrt(np.bincount(nearest, minlength=len(landmarks)) / n)
    return _unit_square(_around(_pushed_apart(positions, radii, seed), radii, nearest, distance))


def _principal_components(embedding: NDArray[Any], count: int, seed: int) -> NDArray[np.float32]:
    """Coordinates (n, count) along the directions of largest spread; fewer dimensions are filled with zeros."""
    from sklearn.decomposition import PCA

    n, d = embedding.shape
    out = np.zeros((n, max(2, min(count, d))), dtype=np.float32)
    if n < 2:
        return out
    rng = np.random.default_rng(seed)
    rows = np.arange(n) if n <= PCA_ROWS else np.sort(rng.choice(n, PCA_ROWS, replace=False))
    with np.errstate(invalid="ignore"):  # equal rows: 0 / 0 in a ratio that is not used
        pca = PCA(min(count, d, n), random_state=seed).fit(np.asarray(embedding[rows], dtype=np.float32))
    for start in range(0, n, CHUNK):
        part = pca.transform(np.asarray(embedding[start : start + CHUNK], dtype=np.float32))
        out[start : start + CHUNK, : part.shape[1]] = part
    return out


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
        method="exact" if m <= 300 else "barnes_hut",  # whose threads cost more than they gain on a few rows
    ).fit_transform(points)
    return positions


def _umap(points: NDArray[np.float32], seed: int) -> NDArray[np.float32]:
    try:
        import umap
    except ImportError as error:
        raise ImportError("A UMAP map needs umap-learn: pip install 'cgmcr2[viz]', or choose tsne or pca.") from error
    neighbours = min(15, len(points) - 1)
    positions: NDArray[np.float32] = umap.UMAP(n_neighbors=neighbours, random_state=seed, n_jobs=1).fit_transform(
        points
    )
    return positions


def _nearest(
    points: NDArray[np.float32], landmarks: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """For each point its nearest landmark, and the square of the distance to it."""
    squares = np.einsum("md,md->m", landmarks, landmarks)
    nearest, least = np.empty(len(points), np.int64), np.empty(len(points), np.float32)
    for start in range(0, len(points), CHUNK):
        part = slice(start, start + CHUNK)
        distance = squares - 2 * points[part] @ landmarks.T  # (c, m), less the square of the point itself
        nearest[part] = distance.argmin(axis=1)
        least[part] = distance.min(axis=1) + np.einsum("cd,cd->c", points[part], points[part])
    return nearest, least


def _pushed_apart(
    positions: NDArray[np.float32], radii: NDArray[np.float64], seed: int, rounds: int = 120
) -> NDArray[np.float32]:
    """Discs moved until few overlap: clusters that are well separated would be tight balls in empty space."""
    from scipy.spatial import cKDTree

    m = len(positions)
    points = positions + np.random.default_rng(seed).normal(0, 1e-3 / np.sqrt(m), (m, 2))  # equal points: a direction
    for _ in range(rounds):
        first, second = cKDTree(points).query_pairs(2 * radii.max(), output_type="ndarray").T
        apart = points[first] - points[second]
        distance = np.maximum(np.linalg.norm(apart, axis=1), 1e-9)
        overlap = np.maximum(radii[first] + radii[second] - distance, 0)
        push = apart * (overlap / distance / 2)[:, None]
        moves = np.stack([np.bincount(first, push[:, x], m) - np.bincount(second, push[:, x], m) for x in (0, 1)], 1)
        crowd = np.bincount(first, overlap > 0, m) + np.bincount(second, overlap > 0, m)
        points += moves / np.sqrt(np.maximum(crowd, 1))[:, None]  # in a crowd the pushes add up too far
    return points.astype(np.float32)


def _around(
    centres: NDArray[np.float32], radii: NDArray[np.float64], nearest: NDArray[np.int64], distance: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Every point in its landmark's disc, filled evenly along a spiral, the closest in the middle."""
    order = np.lexsort((distance, nearest))
    counts = np.bincount(nearest, minlength=len(centres))
    rank = np.arange(len(nearest)) - np.repeat(np.cumsum(counts) - counts, counts)  # 0, 1, ... within each disc
    reach = radii[nearest[order]] * np.sqrt(rank / counts[nearest[order]])
    angle = rank * np.pi * (3 - np.sqrt(5))  # the golden angle
    positions = np.empty((len(nearest), 2), dtype=np.float32)
    positions[order] = centres[nearest[order]] + reach[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return positions


def _unit_square(positions: NDArray[np.float32]) -> NDArray[np.float32]:
    """The same picture, shifted and scaled (both axes alike) to fit 0 ... 1, centred."""
    if len(positions) == 0:
        return positions
    low, high = positions.min(axis=0), positions.max(axis=0)
    span = float((high - low).max()) or 1.0
    fitted: NDArray[np.float32] = (positions - (low + high) / 2) / np.float32(span) + np.float32(0.5)
    return fitted

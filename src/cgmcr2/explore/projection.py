"""A map of the embedding: its rows as points in the plane, in seconds for any number of rows."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Method = Literal["auto", "pca", "tsne", "umap"]

LANDMARKS = 2_000  # t-SNE's time grows faster than n: 2,000 rows take some 6 s on one slow core
NEIGHBOURS = 8  # that a row between landmarks is placed among
PCA_ROWS = 20_000  # enough for the directions of a few dozen components
CHUNK = 8_192


def project(embedding: NDArray[Any], method: Method = "auto", *, seed: int = 0) -> NDArray[np.float32]:
    """Positions (n, 2) of the rows of an embedding (n, d), each axis in 0 ... 1; same input and seed, same positions.

    "pca" shows the two directions of largest spread; "tsne" (which "auto" chooses from 10 rows on) and "umap" (needs
    ``cgmcr2[viz]``) keep neighbours together. Those two lay out at most 2,000 landmark rows, drawn at random, and put
    every other row among its nearest landmarks, so that time and memory stay bounded.

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
    positions = layout(components[landmarks], seed)
    if n > LANDMARKS:
        positions = _place_among(components, components[landmarks], positions)
    return _unit_square(positions)


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

    perplexity = min(30.0, (len(points) - 1) / 3)
    positions: NDArray[np.float32] = TSNE(
        2, perplexity=perplexity, init="pca", learning_rate="auto", max_iter=500, random_state=seed
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


def _place_among(
    points: NDArray[np.float32], landmarks: NDArray[np.float32], positions: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Each point at the mean position of its nearest landmarks, the nearer the heavier (a landmark at its own)."""
    squares = np.einsum("md,md->m", landmarks, landmarks)
    out = np.empty((len(points), 2), dtype=np.float32)
    for start in range(0, len(points), CHUNK):
        chunk = points[start : start + CHUNK]
        distance = squares - 2 * chunk @ landmarks.T + np.einsum("cd,cd->c", chunk, chunk)[:, None]  # (c, m), squared
        near = np.argpartition(distance, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
        distance = np.maximum(np.take_along_axis(distance, near, axis=1), 0)
        weight = 1 / (distance**2 + 1e-9)
        weight /= weight.sum(axis=1, keepdims=True)
        out[start : start + CHUNK] = np.einsum("cn,cnx->cx", weight, positions[near])
    return out


def _unit_square(positions: NDArray[np.float32]) -> NDArray[np.float32]:
    """The same picture, shifted and scaled (both axes alike) to fit 0 ... 1, centred."""
    if len(positions) == 0:
        return positions
    low, high = positions.min(axis=0), positions.max(axis=0)
    span = float((high - low).max()) or 1.0
    fitted: NDArray[np.float32] = (positions - (low + high) / 2) / np.float32(span) + np.float32(0.5)
    return fitted

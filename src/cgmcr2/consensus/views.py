"""Two linear views of the features, and each row's nearest neighbours in them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor

from cgmcr2._random import Stream, generator, sample_rows
from cgmcr2._threads import blas_threads
from cgmcr2.features.sources import FeatureSource, read_rows
from cgmcr2.graphs.knn import top_similar
from cgmcr2.graphs.walk import jaccard_walk, lazy_walk, walk_features
from cgmcr2.model import unit_spaces

Int64 = npt.NDArray[np.int64]

COMPONENTS = 256  # of a view, at most; 128 lose on CIFAR-10 and Pets
VIEW_ROWS = 10_000  # rows that the covariance is estimated from
CHUNK_ROWS = 10_000  # rows that neighbours are searched among: the cost stays linear in n


@dataclasses.dataclass(frozen=True)
class Views:
    """Two linear maps of unit rows, or of one feature space in them: ``(x / |x| - mean) @ matrix``.

    ``standard (D, p)`` standardises the features (with shrinkage towards the mean variance) and projects them onto
    their principal components. ``white (D, p)`` whitens the principal components (with the same shrinkage, so that
    noise is not amplified). Both have a mean square of 1 per component. Their errors differ, so what both views agree
    on is more reliable than either. Rows for the columns of other spaces, and columns beyond the number of components,
    are zero.
    """

    mean: Tensor
    standard: Tensor
    white: Tensor
    spaces: tuple[int, ...]  # widths of the feature spaces in a row; none or one is a single space

    def unit(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """``X (n, D)`` in both views, rows of unit length."""
        X = unit_spaces(X, self.spaces) - self.mean
        return F.normalize(X @ self.standard, dim=1), F.normalize(X @ self.white, dim=1)


def space_views(source: FeatureSource, p: int, seed: int, spaces: tuple[int, ...] = ()) -> list[Views]:
    """The views of each feature space and, if there are several, of all of them side by side."""
    if len(spaces) < 2:
        return [linear_views(source, p, seed)]
    ends = np.cumsum(spaces).tolist()
    columns = [slice(end - width, end) for end, width in zip(ends, spaces, strict=True)]
    return [linear_views(source, p, seed, spaces=spaces, columns=part) for part in (*columns, slice(None))]


@torch.no_grad()
def linear_views(
    source: FeatureSource, p: int, seed: int, *, spaces: tuple[int, ...] = (), columns: slice = slice(None)
) -> Views:
    """Estimate both views, of at most p components each, from a sample of the rows of ``source (n, D)``."""
    rows = sample_rows(source.shape[0], VIEW_ROWS, generator(seed, Stream.VIEW_ROWS))
    U = unit_spaces(torch.from_numpy(read_rows(source, rows)), spaces)[:, columns]
    q = min(p, U.shape[1], max(len(U) // 2, min(2, len(U))))  # smaller components of few rows are noise
    D = source.shape[1]
    mean, standard, white = U.new_zeros(D), U.new_zeros(D, min(p, D)), U.new_zeros(D, min(p, D))
    mean[columns] = U.mean(0)
    U = U - mean[columns]
    variance = U.square().mean(0)
    scales = (variance + variance.mean() + 1e-12).rsqrt(), torch.ones_like(variance)
    for matrix, scale, whiten in zip((standard, white), scales, (False, True), strict=True):
        w, V = principal_components(U * scale, q)
        V = scale[:, None] * V * ((w + w.mean() + 1e-12).rsqrt() if whiten else 1)
        power = (U @ V).square().mean()
        matrix[columns, :q] = V / power.clamp_min(1e-12).sqrt()
    return Views(mean, standard, white, spaces)


def principal_components(X: Tensor, p: int) -> tuple[Tensor, Tensor]:
    """The p largest eigenvalues (p,) of ``X'X / n`` for ``X (n, D)``, descending, and their eigenvectors (D, p).

    With n < D, they come from the (n, n) matrix XX'; eigenvectors of the eigenvalue 0 are then about 0.
    """
    n, few = len(X), len(X) < X.shape[1]
    C = (X @ X.T if few else X.T @ X) / n
    with blas_threads(len(C)):
        ascending = scipy.linalg.eigh(C.numpy(), subset_by_index=[len(C) - p, len(C) - 1])
    w, V = (torch.from_numpy(part).flip(-1) for part in ascending)
    w = w.clamp_min(0)
    if few:
        V = X.T @ V / (n * w.clamp_min(1e-6 * w[0] + 1e-12)).sqrt()
    V = V * V.gather(0, V.abs().argmax(0, keepdim=True)).sign()  # fix the sign, which eigh leaves arbitrary
    return w, V


@torch.no_grad()
def view_neighbours(
    source: FeatureSource, views: Sequence[Views], m: int, seed: int, *, chunk_rows: int = CHUNK_ROWS
) -> Int64:
    """(2 * len(views), n, m) the m nearest neighbours of each row by cosine similarity, nearest first, in each view.

    With more than ``chunk_rows`` rows, neighbours are searched within random chunks. That keeps the time linear in n
    and hardly changes the result: among 10,000 rows the tenth neighbour is still close.
    """
    n = source.shape[0]
    m = min(m, n - 1)
    order = generator(seed, Stream.NEIGHBOUR_CHUNKS).permutation(n) if n > chunk_rows else np.arange(n)
    neighbours = np.empty((2 * len(views), n, m), dtype=np.int64)
    for chunk in np.array_split(order, max(1, -(-n // chunk_rows))):
        rows = np.sort(chunk)
        for i, X in enumerate(unit_views(views, torch.from_numpy(read_rows(source, rows)))):
            neighbours[i, rows] = rows[top_similar(X, m, sort=True)[1].numpy()]
    return neighbours


def neighbour_walk(source: FeatureSource, views: Sequence[Views], m: int, seed: int) -> sp.csr_array:
    """(n, n) random walk to the m nearest neighbours of each row of ``source (n, D)``, averaged over the views.

    The edges are weighted by the overlap of the rows' 2 m nearest neighbours.
    """
    walks = [jaccard_walk(J, m) for J in view_neighbours(source, views, 2 * m, seed)]
    return sp.csr_array(sum(walks[1:], walks[0]) / len(walks))


def unit_views(views: Sequence[Views], X: Tensor) -> list[Tensor]:
    """``X (n, D)`` in all views, rows of unit length."""
    return [view for pair in views for view in pair.unit(X)]


@torch.no_grad()
def smoothed_views(
    X: npt.NDArray[np.float32], steps: Sequence[int], seed: int, *, m: int = 10, p: int = 64, views: Views | None = None
) -> tuple[list[Int64], list[list[Tensor]]]:
    """Both views of ``X (n, D)``, each smoothed by a lazy random walk over its own neighbour graph.

    Unlike the ensemble of the consensus, the views do not share a graph here: an evaluation of a partition must not
    use what the partition was made from.

    Args:
        X: features (n, D).
        steps: numbers of steps of the walk.
        seed: random seed.
        m: neighbours of each row.
        p: components kept of a smoothed view; neighbours are searched in twice as many.
        views: the views, if they have been estimated before.

    Returns:
        For each view the neighbours (n, m), nearest first, and the unit rows (n, p) after each number of steps.
    """
    pair = views or linear_views(X, COMPONENTS, seed)
    unit = [view[:, : 2 * p] for view in pair.unit(torch.from_numpy(X))]
    neighbours = [top_similar(view, min(m, len(X) - 1), sort=True)[1].numpy() for view in unit]
    smoothed = [
        [F.normalize(Y, dim=1)[:, :p].contiguous() for Y in walk_features(lazy_walk(J), view.contiguous(), steps)]
        for view, J in zip(unit, neighbours, strict=True)
    ]
    return neighbours, smoothed

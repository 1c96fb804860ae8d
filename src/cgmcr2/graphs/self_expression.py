"""Self-expression for elastic net subspace clustering (You et al., CVPR 2016), without an n x n array."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import enet_path

from cgmcr2._progress import progress_bar

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

KKT_TOLERANCE = 1e-2  # violation of the optimality conditions, relative to tau, that counts as zero
BLOCK_ROWS = 128  # rows solved together: their products with all rows are one matrix product


def self_expression(
    X: Float32,
    tau: float,
    beta: float,
    *,
    relative: bool = True,
    candidates: int = 100,
    max_rounds: int = 20,
    verbose: bool = False,
) -> sp.csr_array:
    r"""The sparse self-expression matrix ``C (n, n)`` of the rows of ``X (n, D)``, with an empty diagonal.

    Row j of ``C`` is the solution of

    .. math:: \min_{c: c_j = 0} \tau |c|_1 + \frac{1 - \tau}{2} |c|_2^2 + \frac{\beta}{2} |x_j - c X|_2^2

    found by the active set method of the paper: solve on a few candidate rows, add the rows that violate the
    optimality conditions, repeat.

    Args:
        X: unit rows (n, D).
        tau: share of the l1 norm.
        beta: weight of the reconstruction error.
        relative: multiply ``beta`` by ``tau / max_i |x_i' x_j|``, the smallest value with a non-zero solution.
        candidates: rows in the first active set, and the most rows added to it at a time.
        max_rounds: rounds of the active set method.
        verbose: show a progress bar.

    >>> C = self_expression(np.eye(3)[[0, 0, 1, 1]] + 0.1, 0.9, 50.0)
    >>> (C.toarray() > 0.5).astype(int).tolist()
    [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]
    """
    n = len(X)
    columns: list[Int64] = []
    values: list[Float64] = []
    with progress_bar(n, desc="EnSC", unit="rows", enabled=verbose) as bar:
        for rows in np.split(np.arange(n), range(BLOCK_ROWS, n, BLOCK_ROWS)):
            cosines = X[rows] @ X.T  # (b, D) x (D, n) -> (b, n)
            cosines[np.arange(len(rows)), rows] = 0
            largest = np.maximum(np.abs(cosines).max(axis=1), 1e-12)
            betas = beta * tau / largest if relative else np.full(len(rows), beta)
            for support, c in _code(X, rows, cosines, betas, tau, candidates, max_rounds):
                columns.append(support[c != 0])
                values.append(c[c != 0])
            bar.update(len(rows))
    ends = np.concatenate([[0], np.cumsum([len(support) for support in columns])])
    return sp.csr_array((np.concatenate(values), np.concatenate(columns), ends), shape=(n, n))


def _code(
    X: Float32, rows: Int64, cosines: Float32, betas: Float32, tau: float, candidates: int, max_rounds: int
) -> list[tuple[Int64, Float64]]:
    """Active set (rows) and coefficients of each of ``rows``."""
    m = min(candidates, len(X) - 1)
    sizes = -np.abs(cosines)
    sizes[np.arange(len(rows)), rows] = 1  # a row is not its own candidate
    problems = [
        _Candidates(X, j, cosines[b], beta, np.argpartition(sizes[b], m - 1)[:m])
        for b, (j, beta) in enumerate(zip(rows, betas, strict=True))
    ]
    unsolved = problems
    for _ in range(max_rounds):
        missing = np.abs(np.stack([p.solve(tau) for p in unsolved]) @ X.T)  # (b, D) x (D, n) -> (b, n)
        unsolved = [p for p, scores in zip(unsolved, missing, strict=True) if p.extend(scores, tau, candidates)]
        if not unsolved:
            break
    return [(p.support, p.c) for p in problems]


class _Candidates:
    """The problem of row j, restricted to the rows of ``support``; their Gram matrix is extended incrementally."""

    def __init__(self, X: Float32, j: int, cosines: Float32, beta: float, support: Int64) -> None:
        self.X, self.j, self.cosines, self.beta, self.support = X, j, cosines, float(beta), support
        self.S = X[support]
        self.gram: Float64 = (self.S @ self.S.T).astype(np.float64)
        self.c: Float64 = np.zeros(len(support))

    def solve(self, tau: float) -> Float32:
        """Solve on the candidates and return the oracle point ``beta (x_j - c S)`` (D,)."""
        y = self.X[self.j]
        q = self.cosines[self.support].astype(np.float64)
        self.c = elastic_net(self.gram, q, float(np.linalg.norm(y)), tau, self.beta, self.c)
        return np.asarray(self.beta * (y - self.c.astype(np.float32) @ self.S))

    def extend(self, scores: Float32, tau: float, most: int) -> bool:
        """Add at most ``most`` rows whose score ``|x_i' delta|`` exceeds tau; return whether there were any."""
        scores[self.j] = scores[self.support] = 0
        new = np.flatnonzero(scores > tau * (1 + KKT_TOLERANCE))
        if not len(new):
            return False
        new = new[np.argsort(-scores[new], kind="stable")[:most]]
        kept = self.c != 0  # dropped rows are added again if they violate the conditions
        old, added = self.S[kept], self.X[new]
        cross = old @ added.T
        corner = added @ added.T
        self.gram = np.block([[self.gram[np.ix_(kept, kept)], cross], [cross.T, corner]])
        self.support, self.S = np.concatenate([self.support[kept], new]), np.concatenate([old, added])
        self.c = np.concatenate([self.c[kept], np.zeros(len(new))])
        return True


def elastic_net(
    gram: Float64, q: Float64, length: float, tau: float, beta: float, start: Float64 | None = None, tol: float = 1e-3
) -> Float64:
    """``argmin_c tau |c|_1 + (1 - tau)/2 |c|^2 + beta/2 (c'Gc - 2 c'q + length^2)`` for ``G (s, s)`` and ``q (s,)``.

    ``length`` is the norm of the row to be expressed; the duality gap is at most ``tol beta length^2``.

    >>> elastic_net(np.eye(2), np.array([1.0, 0.1]), 1.0, 0.5, 1.0, tol=1e-9).round(3).tolist()
    [0.333, 0.0]
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the next round continues from this solution
        # Given the Gram matrix, scikit-learn uses only the norm of y and the shape of X; here both have one row.
        _, path, _ = enet_path(
            np.empty((1, len(q)), order="F"),
            np.array([length]),
            l1_ratio=tau,
            alphas=[1 / beta],
            precompute=gram,
            Xy=q,
            coef_init=start,
            check_input=False,
            tol=tol,
            max_iter=2000,
        )
    return np.asarray(path[:, 0], dtype=np.float64)


def affinity(C: sp.csr_array, n_nonzero: int) -> sp.csr_array:
    """``(|C| + |C|') / 2`` of the ``n_nonzero`` largest coefficients of each row, after scaling rows to unit length."""
    C = sp.csr_array(abs(C))
    for i in range(C.shape[0]):
        row = C.data[C.indptr[i] : C.indptr[i + 1]]
        if len(row) > n_nonzero:
            row[np.argpartition(row, -n_nonzero)[:-n_nonzero]] = 0
    C.eliminate_zeros()
    lengths = np.sqrt(np.asarray((C * C).sum(axis=1)).ravel())
    C = sp.csr_array(sp.diags_array(1 / np.maximum(lengths, 1e-12)) @ C)
    return sp.csr_array((C + C.T) / 2)

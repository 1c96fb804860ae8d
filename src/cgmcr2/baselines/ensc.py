"""Elastic net subspace clustering: each row written by few others, and a cut of who writes whom."""

from __future__ import annotations

import numpy as np
import sklearn.cluster

from cgmcr2.graphs.self_expression import affinity, self_expression
from cgmcr2.graphs.spectral import spectral_embedding

from .base import Baseline, Float32, Int64, unit_rows


class EnSC(Baseline):
    r"""Elastic net subspace clustering with the oracle-guided active set.

    For each unit row :math:`x_j` of ``X (n, D)``

    .. math:: \min_c \; \tau \|c\|_1 + \frac{1 - \tau}{2} \|c\|_2^2 + \frac{\beta_j}{2} \|x_j - X' c\|_2^2
              \quad \text{s.t. } c_j = 0

    then spectral clustering of ``(|C| + |C|') / 2`` with the rows of ``C`` scaled to unit length. Only a small set of
    candidates is kept: the elastic net on it (scikit-learn's coordinate descent) gives the oracle point
    :math:`\delta = \beta (x_j - X'c)`; a row with :math:`|x_i' \delta| \le \tau` is not in the solution, the others
    join the set, and when none is missing the solution is exact for all n rows. Cost is about ``n^2 D`` in products.

    It groups the rows that it is fitted on, and cannot predict others.

    Parameters
    ----------
    tau : 1 is the lasso (sparse subspace clustering), towards 0 ridge regression; the CgMCR² paper searched
        0.9, 0.95, 1
    beta : weight of the error; the paper searched 1, 2, 5, 10, 50, 100, 200 (50 keeps hundreds of coefficients a row of
        which n_nonzero count, and takes thirty times as long as 10)
    relative : ``beta_j = beta tau / max_i |x_i' x_j|``, ``beta`` times the least with which anything is selected, as in
        the authors' code; otherwise ``beta_j = beta``
    n_nonzero : the largest coefficients of a row that enter the graph
    candidates : rows in the first active set, the most similar ones
    max_rounds : of the active set for a row
    n_init : starts of k-means

    Differs from the authors' code: rows are coded in blocks, and the small elastic nets are solved by scikit-learn's
    coordinate descent on Gram matrices that are kept from round to round (theirs: SPAMS, or scikit-learn's lasso, which
    allows tau = 1 only), to a duality gap of 0.1 %; a row joins when it exceeds tau by 1 %.

    >>> X = np.repeat(np.eye(3), 5, axis=0) + 0.1 * np.random.default_rng(0).random((15, 3))
    >>> len(set(EnSC(3).fit_predict(X)))
    3
    """

    name = "ensc"
    reference = "You, Li, Robinson and Vidal, Oracle Based Active Set Algorithm for Scalable EnSC, CVPR 2016"
    can_predict = False

    def __init__(
        self,
        n_clusters: int = 10,
        *,
        random_state: int = 0,
        tau: float = 0.9,
        beta: float = 10.0,
        relative: bool = True,
        n_nonzero: int = 50,
        candidates: int = 100,
        max_rounds: int = 20,
        n_init: int = 10,
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.random_state = random_state
        self.tau = tau
        self.beta = beta
        self.relative = relative
        self.n_nonzero = n_nonzero
        self.candidates = candidates
        self.max_rounds = max_rounds
        self.n_init = n_init
        self.verbose = verbose

    def _fit(self, X: Float32, seed: int) -> Int64:
        if not 0 < self.tau <= 1 or self.beta <= 0:
            raise ValueError(
                f"tau must be above 0 and at most 1 and beta above 0, but they are {self.tau}, {self.beta}."
            )
        C = self_expression(
            unit_rows(X),
            self.tau,
            self.beta,
            relative=self.relative,
            candidates=self.candidates,
            max_rounds=self.max_rounds,
            verbose=self.verbose,
        )
        A = affinity(C, self.n_nonzero)
        vectors = spectral_embedding(A, self.n_clusters, seed)
        model = sklearn.cluster.KMeans(self.n_clusters, n_init=self.n_init, random_state=seed % 2**32).fit(vectors)
        return np.asarray(model.labels_, dtype=np.int64)

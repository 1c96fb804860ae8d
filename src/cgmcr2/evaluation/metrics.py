"""External clustering metrics: accuracy, normalized mutual information and adjusted Rand index."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment


class Scores(NamedTuple):
    """Clustering accuracy, normalized mutual information and adjusted Rand index; 1 is perfect."""

    acc: float
    nmi: float
    ari: float

    def __str__(self) -> str:
        return f"ACC {100 * self.acc:.1f} %  NMI {100 * self.nmi:.1f} %  ARI {100 * self.ari:.1f} %"


def clustering_accuracy(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Accuracy under the best one-to-one matching of clusters and classes (Hungarian algorithm).

    Parameters
    ----------
    labels_true : array-like of shape (n,)
        Classes; numbers or names.
    labels_pred : array-like of shape (n,)
        Clusters. Their number may differ from that of the classes; rows of unmatched clusters count as errors.

    Returns
    -------
    accuracy : float

    Examples
    --------
    >>> clustering_accuracy([0, 0, 1, 1], [1, 1, 0, 2])
    0.75
    """
    true, pred = np.asarray(labels_true), np.asarray(labels_pred)
    if true.shape != pred.shape or true.ndim != 1 or not len(true):
        raise ValueError(
            f"The true labels have shape {true.shape} and the predicted ones {pred.shape}; both must be (n,), n > 0."
        )
    from sklearn.metrics.cluster import contingency_matrix  # slow to import, and clustering does not need it

    counts = contingency_matrix(true, pred)
    rows, columns = linear_sum_assignment(counts, maximize=True)
    return float(counts[rows, columns].sum() / len(true))


def score_labels(labels_true: ArrayLike, labels_pred: ArrayLike) -> Scores:
    """Return ACC, NMI (normalized by the arithmetic mean of the entropies) and ARI.

    >>> score_labels([0, 0, 1, 1], [1, 1, 0, 0])
    Scores(acc=1.0, nmi=1.0, ari=1.0)
    """
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    acc = clustering_accuracy(labels_true, labels_pred)
    nmi = float(normalized_mutual_info_score(labels_true, labels_pred))
    return Scores(acc, nmi, float(adjusted_rand_score(labels_true, labels_pred)))

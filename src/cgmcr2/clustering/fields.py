"""The data of a clustering: checked once, and read-only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cgmcr2._arrays import confidence_and_margin

from .io import default_name
from .memberships import Memberships

if TYPE_CHECKING:
    from typing_extensions import Self

_FIELDS = (
    "ids",
    "labels",
    "confidence",
    "margin",
    "outlier",
    "embedding",
    "probabilities",
    "names",
    "merged",
    "groups",
    "locked",
    "excluded",
)


class ClusteringFields:
    """The fields of a ``Clustering``, which describes them."""

    def __init__(
        self,
        ids: Sequence[str],
        labels: ArrayLike,
        *,
        confidence: ArrayLike | None = None,
        margin: ArrayLike | None = None,
        outlier: ArrayLike | None = None,
        embedding: ArrayLike | None = None,
        probabilities: ArrayLike | Memberships | None = None,
        names: Sequence[str] | None = None,
        merged: Mapping[int, int] | None = None,
        groups: ArrayLike | None = None,
        locked: ArrayLike | None = None,
        excluded: int | None = None,
    ) -> None:
        self.ids = list(ids)
        n = len(self.ids)
        self.labels: NDArray[np.int64] = _frozen(labels, np.int64, n, 1, "labels")
        self.embedding = None if embedding is None else _frozen(embedding, np.float32, n, 2, "embedding")
        self.memberships = None if probabilities is None else _memberships(probabilities, n)
        k = self.labels.max(initial=-1) + 1 if self.memberships is None else self.memberships.k
        self.names = list(names) if names is not None else [default_name(c) for c in range(k)]
        self.merged = dict(merged or {})
        self.groups = None if groups is None else _frozen(groups, np.int64, n, 1, "groups")
        self.locked: NDArray[np.bool_] = _frozen(np.zeros(n) if locked is None else locked, np.bool_, n, 1, "locked")
        self.excluded = excluded
        self._earlier: tuple[NDArray[np.int64], NDArray[np.float64]] | None = None  # labels and energy before an edit
        self._check()
        if confidence is None or margin is None:
            from_probabilities = _confidence_and_margin(self.labels, self.memberships)
            confidence = from_probabilities[0] if confidence is None else confidence
            margin = from_probabilities[1] if margin is None else margin
        self.confidence: NDArray[np.float32] = _frozen(confidence, np.float32, n, 1, "confidence")
        self.margin: NDArray[np.float32] = _frozen(margin, np.float32, n, 1, "margin")
        outlier = np.zeros(n, np.float32) if outlier is None else outlier
        self.outlier: NDArray[np.float32] = _frozen(outlier, np.float32, n, 1, "outlier")

    def _check(self) -> None:
        k = len(self.names)
        if len(set(self.ids)) != len(self.ids):
            raise ValueError("Two images have the same id; ids must be distinct.")
        if len(self.labels) and not (self.labels.min() >= 0 and self.labels.max() < k):
            low, high = self.labels.min(), self.labels.max()
            raise ValueError(f"Labels range from {low} to {high}, but with {k} names they must be in 0 ... {k - 1}.")
        if self.memberships is not None and self.memberships.k != k:
            raise ValueError(f"The probabilities have {self.memberships.k} columns, but there are {k} names.")
        for name in self.names:
            if not name.strip():
                raise ValueError("The name of a cluster is empty; give it at least one visible character.")
        name, count = Counter(self.names).most_common(1)[0] if k else ("", 1)
        if count > 1:
            raise ValueError(f"Two clusters are called {name!r}; choose another name, or merge them.")
        if self.excluded is not None and not 0 <= self.excluded < k:
            raise ValueError(f"excluded is {self.excluded}, but clusters are 0 ... {k - 1}.")
        if self.groups is not None and not _are_first_rows(self.groups):
            raise ValueError("groups must hold the first row of the group of each row.")

    def __len__(self) -> int:
        return len(self.ids)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClusteringFields):
            return NotImplemented
        pairs = ((getattr(self, name), getattr(other, name)) for name in _FIELDS)
        return all(
            type(a) is type(b) and (np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b) for a, b in pairs
        )

    __hash__ = None  # type: ignore[assignment]  # it holds arrays

    def _with(self, **changes: Any) -> Self:
        fields = {name: getattr(self, name) for name in _FIELDS if name != "probabilities"}
        return type(self)(**{**fields, "probabilities": self.memberships, **changes})


def _frozen(values: ArrayLike, dtype: type, n: int, axes: int, name: str) -> NDArray[Any]:
    """A read-only view of ``values`` (no copy if not needed), checked to have n rows and ``axes`` axes."""
    view: NDArray[Any] = np.asarray(values, dtype=dtype).view(np.ndarray)
    if view.ndim != axes or len(view) != n:
        needed = (n,) if axes == 1 else f"({n}, any)"
        raise ValueError(f"{name} has shape {view.shape}, but {n} ids need shape {needed}.")
    return read_only(view)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view of ``array`` that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def _are_first_rows(groups: NDArray[np.int64]) -> bool:
    """Whether each entry is the first row of a group.

    >>> _are_first_rows(np.array([0, 0, 2])), _are_first_rows(np.array([0, 2, 2]))
    (True, False)
    """
    rows = np.arange(len(groups))
    return bool((groups >= 0).all() and (groups <= rows).all() and (groups[groups] == groups).all())


def _memberships(probabilities: ArrayLike | Memberships, n: int) -> Memberships:
    if isinstance(probabilities, Memberships):
        return probabilities
    array = _frozen(probabilities, np.float32, n, 2, "probabilities")
    return Memberships(array, array.shape[1])


def _confidence_and_margin(
    labels: NDArray[np.int64], memberships: Memberships | None
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The probability of each row's cluster, and its difference to the largest other probability."""
    if memberships is None:
        return np.ones(len(labels), np.float32), np.ones(len(labels), np.float32)
    confidence, margin = np.empty((2, len(labels)), np.float32)
    for rows, probabilities in memberships.blocks():
        confidence[rows], margin[rows] = confidence_and_margin(labels[rows], probabilities)
    return confidence, margin

"""The methods of ``Clustering`` that edit it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from typing_extensions import Self


class Verbs:
    """The edits of a clustering. Each returns a new one and leaves the old one unchanged."""

    def _edit(self, verb: str, *arguments: Any) -> Self:
        """The clustering after a method of ``Draft``."""
        raise NotImplementedError

    def rename(self, cluster: int | str, name: str) -> Self:
        """Rename a cluster, given by its number or current name."""
        return self._edit("rename", cluster, name)

    def merge(self, clusters: Sequence[int | str], name: str | None = None) -> Self:
        """Merge clusters into the first of them; the others stay as empty clusters.

        The first cluster keeps its number, and its name unless ``name`` is given. Probabilities are added up, and
        confidence and margin follow from them; without probabilities they are unchanged.

        >>> from cgmcr2 import Clustering
        >>> c = Clustering(["a", "b", "c"], [0, 1, 2]).merge([0, 2], "cats")
        >>> c.labels, c.names, c.merged
        (array([0, 1, 0]), ['cats', 'Cluster 1', 'Cluster 2'], {2: 0})
        """
        return self._edit("merge", clusters, name)

    def split(self, cluster: int | str, parts: Sequence[ArrayLike], names: Sequence[str | None] | None = None) -> Self:
        """Make each of ``parts``, the rows of some images of a cluster, a cluster of its own; the rest stays.

        ``cgmcr2.clustering.propose_split`` finds parts by clustering the images of the cluster.

        >>> from cgmcr2 import Clustering
        >>> c = Clustering(["a", "b", "c"], [0, 0, 0], names=["pets"]).split(0, [[1], [2]], ["cats", None])
        >>> c.labels, c.names
        (array([0, 1, 2]), ['pets', 'cats', 'pets (2)'])
        """
        return self._edit("split", cluster, parts, names)

    def move(self, rows: ArrayLike, cluster: int | str) -> Self:
        """Move the images ``rows`` to a cluster; their confidence and margin become 1.

        >>> from cgmcr2 import Clustering
        >>> Clustering(["a", "b"], [0, 1]).move([0], 1).labels
        array([1, 1])
        """
        return self._edit("move", rows, cluster)

    def new(self, rows: ArrayLike, name: str | None = None) -> Self:
        """Move the images ``rows`` to a new cluster.

        >>> from cgmcr2 import Clustering
        >>> c = Clustering(["a", "b"], [0, 0]).new([1], "dogs")
        >>> c.labels, c.names
        (array([0, 1]), ['Cluster 0', 'dogs'])
        """
        return self._edit("new", rows, name)

    def exclude(self, rows: ArrayLike) -> Self:
        """Move the images ``rows`` to the cluster ``excluded``, which is kept out of exports.

        >>> from cgmcr2 import Clustering
        >>> c = Clustering(["a", "b"], [0, 0]).exclude([1])
        >>> c.excluded, c.names[c.excluded], c.included().ids
        (1, 'Excluded', ['a'])
        """
        return self._edit("exclude", rows)

    def reject(self, rows: ArrayLike, clusters: Sequence[int | str]) -> Self:
        """Record that the images ``rows`` belong to none of ``clusters``.

        Their probabilities there become 0, and the remaining ones are scaled to sum to 1. An image in one of
        ``clusters`` moves to the most probable remaining cluster. It is excluded if none remains, that is, if all other
        probabilities are 0 or if there are no probabilities.

        >>> from cgmcr2 import Clustering
        >>> c = Clustering(["a"], [0], probabilities=[[0.5, 0.375, 0.125]])
        >>> c.reject([0], [0]).probabilities
        array([[0.  , 0.75, 0.25]], dtype=float32)
        >>> c.reject([0], [0, 1]).labels, c.reject([0], [0, 1, 2]).excluded
        (array([2]), 3)
        """
        return self._edit("reject", rows, clusters)

    def refine(
        self,
        rows: ArrayLike,
        clusters: ArrayLike,
        confidence: ArrayLike | None = None,
        margin: ArrayLike | None = None,
        model: str | None = None,
    ) -> Self:
        """Move each of ``rows`` to its cluster in ``clusters``, a number: the result of a refinement.

        An image that moves exchanges its probabilities in the old and the new cluster. Confidence and margin, default:
        from these probabilities, are those of the refined model. ``model`` names its weights and has no effect here.

        >>> from cgmcr2 import Clustering
        >>> Clustering(["a", "b", "c"], [0, 1, 1]).refine([0, 2], [1, 0]).labels
        array([1, 1, 0])
        """
        return self._edit("refine", rows, clusters, confidence, margin, model)

    def batch(self, edits: Sequence[tuple[str, Mapping[str, Any]]]) -> Self:
        """Apply several edits, each the name and the keyword arguments of a method, as one.

        >>> from cgmcr2 import Clustering
        >>> c = Clustering(["a", "b"], [0, 1])
        >>> c.batch([("move", {"rows": [0], "cluster": 1}), ("lock", {"rows": [0]})]).locked
        array([ True, False])
        """
        return self._edit("batch", edits)

    def lock(self, rows: ArrayLike) -> Self:
        """Confirm the cluster of the images ``rows``: they cannot be moved until they are unlocked."""
        return self._edit("lock", rows)

    def unlock(self, rows: ArrayLike) -> Self:
        """Allow the images ``rows`` to be moved again."""
        return self._edit("unlock", rows)

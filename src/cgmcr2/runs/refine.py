"""Learn from the edits of a run, and choose the images to ask about."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cgmcr2 import _checksums
from cgmcr2._arrays import confidence_and_margin
from cgmcr2.clustering import Clustering
from cgmcr2.clustering.draft import row_numbers
from cgmcr2.clustering.edits import Edit, flatten
from cgmcr2.clustering.memberships import Exchange, Memberships, Reject, best_other
from cgmcr2.consensus.stability import Calibration
from cgmcr2.estimator import CgMCR2
from cgmcr2.features.sources import FeatureSource
from cgmcr2.training.refinement import (
    DEFAULT,
    Constraints,
    FeatureGraph,
    RefinementConfig,
    refine_memberships,
    review_order,
    train_head,
)

from .edits import Edits
from .folder import RunFolder

Int64 = npt.NDArray[np.int64]
Float32 = npt.NDArray[np.float32]

REFINED = "refined-"  # folders of refined models in the run folder, followed by the state they were learned from


class Question(NamedTuple):
    """An image to ask about, its most probable cluster, and its current one or else the second most probable."""

    row: int
    first: int
    second: int
    p_first: float
    p_second: float


class Move(NamedTuple):
    """Images that a refinement moves from one cluster to another."""

    origin: int
    target: int
    rows: Int64


class Refiner:
    """Learns from the edits of a run, and chooses the images to ask about.

    The neighbour graph of the features is computed once, on first use.

    Parameters
    ----------
    edits : the open edits of the run
    config : constants of the refinement

    Examples
    --------
    Confirm two images, and let others follow::

        with Edits("run") as edits:
            edits.move(["IMG_1.jpg"], "dogs")
            edits.lock(["IMG_1.jpg", "IMG_2.jpg"])
            refinement = Refiner(edits).refine()
            for move in refinement.moves:
                print(len(move.rows), "images from", move.origin, "to", move.target)
            refinement.accept()
    """

    def __init__(self, edits: Edits, *, config: RefinementConfig = DEFAULT) -> None:
        self.edits, self.config = edits, config

    @cached_property
    def features(self) -> FeatureSource:
        """The features (n, D) of the images."""
        features = self.edits.run.features(self.edits.fitted.ids)
        if features is None:
            raise ValueError(
                f"Learning from edits needs the features of the run, but {self.edits.run.info.source} does not have "
                "them anymore; put the file back."
            )
        return features

    @cached_property
    def graph(self) -> FeatureGraph:
        """The features with their neighbour graph."""
        return FeatureGraph.of(self.features, self.edits.fitted.n_clusters)

    def questions(self, count: int = 20) -> list[Question]:
        """The images whose clusters someone should confirm next, most useful first."""
        P, constraints = self._refined()
        settled = np.union1d(constraints.answers, constraints.excluded)
        rows = review_order(P, self.graph.walk, settled, count)
        first, current = P[rows].argmax(1), self.edits.clustering.labels[rows]
        second = np.where(first == current, best_other(first, P[rows]), current)  # its cluster is always an answer
        known = second >= 0
        rows, first, second = rows[known], first[known], second[known]
        columns = (rows, first, second, P[rows, first].round(4), P[rows, second].round(4))
        return [Question(*values) for values in zip(*(column.tolist() for column in columns), strict=True)]

    def refine(self) -> Refinement:
        """Learn from the edits; nothing is changed before the result is accepted."""
        edits = self.edits
        state, clustering = edits.state, edits.clustering
        P, constraints = self._refined()
        reshaped = clustering.merged or clustering.n_clusters > edits.fitted.n_clusters
        if not (reshaped or len(constraints.answers) or len(constraints.rejected[0])):
            raise ValueError(
                "There is nothing to learn from yet; first move, lock or reject images, or merge or split clusters."
            )
        return Refinement(edits, self, state, clustering, P, constraints)

    def train(self, probabilities: Float32, constraints: Constraints) -> CgMCR2:
        """The model of the run after training its cluster head towards ``probabilities (n, k)``."""
        model = self.edits.run.estimator()
        if model.network_.config.centroids:
            raise ValueError("The model of this run has no cluster head, so it cannot learn from edits.")
        model.network_ = train_head(
            model.network_, model.head_, self.features, probabilities, constraints, seed=model.seed_, config=self.config
        )
        model.n_clusters_ = probabilities.shape[1]
        model.calibration_ = Calibration(stability=model.calibration_.stability)
        model.levels_ = None  # of the fitted clusters
        return model

    def _refined(self) -> tuple[Float32, Constraints]:
        """Memberships (n, k) that follow from the current edits, and the constraints."""
        memberships, constraints = evidence(self.edits)
        return refine_memberships(memberships, self.graph, constraints, config=self.config), constraints


@dataclasses.dataclass
class Refinement:
    """What a refinement would change. Nothing is written before ``accept``."""

    edits: Edits
    refiner: Refiner
    state: str  # of the edits it was computed for
    clustering: Clustering  # before the refinement
    probabilities: Float32  # (n, k), refined
    constraints: Constraints

    def __post_init__(self) -> None:
        labels = self.probabilities.argmax(1)
        possible = (self.probabilities.max(1) > 0) & ~self.clustering.locked
        self.rows: Int64 = np.flatnonzero(possible & (labels != self.clustering.labels))
        self.labels: Int64 = np.where(possible, labels, self.clustering.labels)

    @property
    def moves(self) -> list[Move]:
        """The images that would move, by origin and target, most images first."""
        origins, targets = self.clustering.labels[self.rows], self.labels[self.rows]
        pairs, index = np.unique(np.stack([origins, targets]), axis=1, return_inverse=True)
        groups = [
            Move(int(origin), int(target), self.rows[index.ravel() == i]) for i, (origin, target) in enumerate(pairs.T)
        ]
        return sorted(groups, key=lambda move: -len(move.rows))

    def accept(self, rows: npt.ArrayLike | None = None) -> Clustering:
        """Train the cluster head, write the model to the run folder, then move the images as one edit.

        With ``rows``, only these of the images that would move do; the others stay in their clusters.
        """
        edits = self.edits
        if edits.state != self.state:
            raise ValueError("The clusters were edited after this refinement; refine again.")
        accepted = self.rows if rows is None else np.intersect1d(self.rows, row_numbers(rows))
        if not len(accepted):
            return self.clustering
        labels, P, kept = self.labels.copy(), self.probabilities.copy(), np.setdiff1d(self.rows, accepted)
        labels[kept] = self.clustering.labels[kept]
        P[kept] = np.eye(P.shape[1], dtype=P.dtype)[labels[kept]]
        name = f"{REFINED}{self.state}"
        model = self.refiner.train(P, self.constraints)
        model.labels_ = labels
        write_model(edits.run, model, name, keep=model_names(edits.log))
        confidence, margin = confidence_and_margin(labels[accepted], P[accepted])
        return edits.refine(accepted, labels[accepted], confidence, margin, name)


def evidence(edits: Edits) -> tuple[Float32, Constraints]:
    """The probabilities (n, k) of the fit after merges and splits, and what the edits say about images.

    Images that were moved or locked are answers. Only the locked ones tell how often a cluster is right: whoever moves
    the wrong images out of a cluster says nothing against the others. Earlier refinements are left out: each one starts
    from the fit and learns from all answers, so its mistakes do not persist.
    """
    clustering = edits.clustering
    if clustering.memberships is None:
        raise ValueError("Learning from edits needs the probabilities of the clusters, but this run has none.")
    fitted = _without_refinements(clustering.memberships, edits.history.done)
    placed = clustering.locked.copy()
    if clustering.memberships.certain is not None:
        placed |= clustering.memberships.certain >= 0
    excluded = clustering.labels == (-1 if clustering.excluded is None else clustering.excluded)
    rejects = [change for change in fitted.changes if isinstance(change, Reject)]
    pairs = [(row, cluster) for change in rejects for row in change.rows for cluster in change.clusters]
    sizes = clustering.sizes()
    unused = [cluster for cluster in clustering.merged if not sizes[cluster]]
    if clustering.excluded is not None:
        unused.append(clustering.excluded)
    rows, clusters = np.array(pairs, np.int64).reshape(-1, 2).T
    labels = np.where(placed & ~excluded, clustering.labels, -1)
    constraints = Constraints(
        labels,
        (rows, clusters),
        np.flatnonzero(excluded),
        np.array(unused, np.int64),
        reviewed=np.flatnonzero(clustering.locked & ~excluded),
    )
    return np.array(fitted.dense()), constraints


def _without_refinements(memberships: Memberships, edits: Iterable[Edit]) -> Memberships:
    """``memberships`` without the changes that the refinements among ``edits`` have made, and without answers."""
    refinements = [
        {**dict(zip(values["rows"], values["clusters"], strict=True))}
        for verb, values in flatten(list(edits))
        if verb == "refine"
    ]
    changes = []
    for change in memberships.changes:
        pairs = (
            dict(zip(change.rows.tolist(), change.second.tolist(), strict=True)) if isinstance(change, Exchange) else {}
        )
        if refinements and pairs == refinements[0]:
            refinements.pop(0)
        else:
            changes.append(change)
    return dataclasses.replace(memberships, changes=tuple(changes), certain=None)


def model_names(edits: Iterable[Edit]) -> set[str]:
    """The folders of the refined models that ``edits`` use."""
    return {values["model"] for verb, values in flatten(list(edits)) if verb == "refine" and values.get("model")}


def write_model(run: RunFolder, model: CgMCR2, name: str, *, keep: set[str]) -> None:
    """Write a refined model with its checksums, and delete those of refinements that no edit uses."""
    files = _checksums.read_checksums(run.path) or {}
    names = [file for file in files if file.startswith(REFINED) and file.partition("/")[0] not in keep]
    with _checksums.replacing_files(run.path, names) as staging:
        model.save(staging / name)

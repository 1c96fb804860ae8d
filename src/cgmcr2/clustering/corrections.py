"""Turn labels from another tool into edits of a clustering."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .clustering import Clustering
from .draft import EXCLUDED
from .filematch import FileIndex
from .labels import Label

Target = int | str  # number of a cluster, or the name of a new one


class Corrections(NamedTuple):
    """What labels change, as the edits of one batch, and what they leave as it is."""

    edits: list[tuple[str, dict[str, Any]]]
    moves: Counter[tuple[str, str]]  # number of images by the names of the old and the new cluster
    renamed: dict[str, str]  # new name by old name
    confirmed: int  # images that were in the right cluster and are now locked
    agreeing: int  # images that were in the right cluster
    refused: list[str]  # images that are locked in another cluster, and stay there
    unknown: list[str]  # files that are not images of the clustering


def find_corrections(clustering: Clustering, labels: Sequence[Label]) -> Corrections:
    """The edits that give the images of ``clustering`` these labels.

    - A label that no cluster has becomes a new cluster, or the new name of a cluster if all its images have it.
    - Images that move are locked.
    - Images whose label agrees with their cluster are locked, too, if a person gave the label. If the file does not say
      who gave it, this is assumed unless the labels cover all images, as in an export.

    >>> c = Clustering(["a.jpg", "b.jpg", "c.jpg"], [0, 0, 1])
    >>> find_corrections(c, [Label("b.jpg", "dogs"), Label("c.jpg", "Cluster 1")]).edits
    [('new', {'rows': [1], 'name': 'dogs'}), ('lock', {'rows': [1, 2]})]
    """
    targets, by_person, unknown = _find_targets(clustering, labels)
    renames = _find_renames(clustering, targets)
    moved: dict[Target, list[int]] = defaultdict(list)
    moves: Counter[tuple[str, str]] = Counter()
    agreeing, refused = [], []
    for row, label in sorted(targets.items()):
        target = renames.get(label, label)
        if target == int(clustering.labels[row]):
            agreeing.append(row)
        elif clustering.locked[row]:
            refused.append(clustering.ids[row])
        else:
            moved[target].append(row)
            moves[clustering.names[clustering.labels[row]], _name(clustering, label)] += 1

    excluded = 0 if clustering.excluded is None else len(clustering.rows(clustering.excluded))
    is_export = len(targets) >= len(clustering) - excluded
    confirmed = [row for row in agreeing if by_person.get(row, not is_export) and not clustering.locked[row]]
    edits: list[tuple[str, dict[str, Any]]] = [
        ("rename", {"cluster": cluster, "name": name}) for name, cluster in renames.items()
    ]
    edits += [_move(rows, target) for target, rows in moved.items()]
    locked = sorted(row for rows in (confirmed, *moved.values()) for row in rows)
    edits += [("lock", {"rows": locked})] if locked else []
    renamed = {clustering.names[cluster]: str(name) for name, cluster in renames.items()}
    return Corrections(edits, moves, renamed, len(confirmed), len(agreeing), refused, unknown)


def _find_targets(
    clustering: Clustering, labels: Sequence[Label]
) -> tuple[dict[int, Target], dict[int, bool], list[str]]:
    """The cluster of each row, whether a person gave it, if that is known, and the files that are not images."""
    rows = FileIndex(clustering.ids).match([label.file for label in labels])
    numbers = {name: number for number, name in enumerate(clustering.names)}
    targets: dict[int, Target] = {}
    by_person: dict[int, bool] = {}
    unknown: list[str] = []
    for label, row in zip(labels, rows, strict=True):
        if row is None:
            unknown.append(label.file)
            continue
        target = _target(label, int(clustering.labels[row]), numbers)
        if targets.setdefault(row, target) != target:
            names = " and ".join(repr(_name(clustering, value)) for value in (targets[row], target))
            raise ValueError(f"{clustering.ids[row]!r} has two labels, {names}; leave one of them.")
        if label.by_person is not None:
            by_person[row] = label.by_person
    if labels and not targets:
        raise ValueError(
            f"None of the {len(labels):,} files is an image of the run, such as {labels[0].file!r}; "
            "give paths as in the first column of labels.csv."
        )
    return targets, by_person, list(dict.fromkeys(unknown))


def _target(label: Label, current: int, numbers: dict[str, int]) -> Target:
    """The cluster of a label. If its name and its number differ, the one that was changed counts."""
    name, number = label.name, label.number
    if number is not None and not 0 <= number < len(numbers):
        if name is None and str(number) not in numbers:  # a name such as 2024
            raise ValueError(f"{label.file!r} has the cluster {number}; clusters are 0 ... {len(numbers) - 1}.")
        name, number = name or str(number), None
    by_name = None if name is None else numbers.get(name.strip(), name.strip())
    if number is not None and by_name in (None, current, number):
        return number
    if by_name is not None and (number in (None, current) or isinstance(by_name, str)):
        return by_name
    raise ValueError(f"{label.file!r} has the cluster {number} and the name {name!r}; change only one of them.")


def _find_renames(clustering: Clustering, targets: dict[int, Target]) -> dict[Target, int]:
    """The new names that all images of a cluster have, each with the largest such cluster."""
    names: dict[int, set[Target]] = defaultdict(set)
    for row, target in targets.items():
        names[int(clustering.labels[row])].add(target)
    counts = np.bincount(clustering.labels[list(targets)], minlength=clustering.n_clusters)
    sizes = clustering.sizes()
    renames: dict[Target, int] = {}
    for cluster in sorted(names, key=lambda cluster: -sizes[cluster]):
        name = next(iter(names[cluster]))
        whole = len(names[cluster]) == 1 and counts[cluster] == sizes[cluster] and cluster != clustering.excluded
        if whole and isinstance(name, str) and name != EXCLUDED:
            renames.setdefault(name, cluster)
    return renames


def _move(rows: list[int], target: Target) -> tuple[str, dict[str, Any]]:
    if target == EXCLUDED:
        return "exclude", {"rows": rows}
    if isinstance(target, str):
        return "new", {"rows": rows, "name": target}
    return "move", {"rows": rows, "cluster": target}


def _name(clustering: Clustering, target: Target) -> str:
    return target if isinstance(target, str) else clustering.names[target]

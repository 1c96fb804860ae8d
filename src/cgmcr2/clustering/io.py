"""The files of a clustering.

``labels.csv`` has one row per image: path, cluster, its name, confidence (probability of the cluster), margin
(difference to the next best cluster) and outlier (rank of how unusual the image is, 0 to 1). If
near-duplicates were searched for, duplicate_of is the path of the first image of the group, and empty for that image
and for those without a duplicate.
``clusters.csv`` summarises the clusters. ``clusters.json`` holds names and merges, and takes precedence over the names
in ``labels.csv``. ``embeddings.npy`` and ``probabilities.npy`` hold the arrays.
"""

from __future__ import annotations

import csv
import dataclasses
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cgmcr2._checksums import FILE_NAME as CHECKSUMS
from cgmcr2._checksums import replacing_files, verify_files
from cgmcr2._files import read_json, replacing, write_json

from .geometry import ClusterSummary, summarize_clusters

if TYPE_CHECKING:
    from .clustering import Clustering

COLUMNS = ("path", "cluster", "name", "confidence", "margin", "outlier")
DUPLICATE_OF = "duplicate_of"  # last column, if near-duplicates were searched for
ARRAYS = {"embedding": "embeddings.npy", "probabilities": "probabilities.npy"}
BLOCK_ROWS = 65_536  # rows of labels.csv that are converted at once
FILES = ("labels.csv", "clusters.csv", "clusters.json", *ARRAYS.values())


@dataclasses.dataclass
class ClusterNames:
    """The content of ``clusters.json``."""

    names: list[str]
    merged: dict[int, int] = dataclasses.field(default_factory=dict)  # target of each merged cluster
    excluded: int | None = None  # cluster of the excluded images
    locked: list[int] = dataclasses.field(default_factory=list)  # rows whose cluster is confirmed


def column_names(clustering: Clustering) -> tuple[str, ...]:
    """The columns of ``labels.csv``."""
    return COLUMNS if clustering.groups is None else (*COLUMNS, DUPLICATE_OF)


def records(clustering: Clustering) -> Iterator[tuple[object, ...]]:
    """The rows of ``labels.csv``: path, cluster, name, confidence, margin, outlier, and duplicate_of if known."""
    duplicate_of = None if clustering.groups is None else clustering.duplicate_of()
    for start in range(0, len(clustering), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        labels = clustering.labels[rows].tolist()
        names = [clustering.names[label] for label in labels]
        scores = (_shortest(array[rows]) for array in (clustering.confidence, clustering.margin, clustering.outlier))
        last = () if duplicate_of is None else (duplicate_of[rows],)
        yield from zip(clustering.ids[rows], labels, names, *scores, *last, strict=True)


def save_clustering(clustering: Clustering, folder: Path) -> None:
    """Write the files of ``clustering``, each atomically; in the folder of a finished run, all or none of them."""
    if not (folder / CHECKSUMS).exists():
        _write_files(clustering, folder)
        return
    with replacing_files(folder, FILES) as staging:
        _write_files(clustering, staging)


def _write_files(clustering: Clustering, folder: Path) -> None:
    for attribute, file in ARRAYS.items():
        array = getattr(clustering, attribute)
        if array is None:
            (folder / file).unlink(missing_ok=True)
        else:
            with replacing(folder / file) as temporary:
                np.save(temporary, array)
    locked = np.flatnonzero(clustering.locked).tolist()
    clusters = ClusterNames(clustering.names, clustering.merged, clustering.excluded, locked)
    write_json(folder / "clusters.json", dataclasses.asdict(clusters))
    with replacing(folder / "clusters.csv") as temporary:
        write_csv(temporary, summarize_clusters(clustering), ClusterSummary._fields)
    with replacing(folder / "labels.csv") as temporary:
        write_csv(temporary, records(clustering), column_names(clustering))


def read_clustering(folder: Path) -> dict[str, Any]:
    """The keyword arguments of ``Clustering`` from the files in ``folder``; arrays are memory-mapped."""
    table = folder / "labels.csv"
    if not table.is_file():
        raise FileNotFoundError(f"{folder} has no labels.csv; finish the run first.")
    verify_files(folder, FILES)
    columns, row_names = _read_table(table)
    if (folder / "clusters.json").is_file():
        clusters = read_json(folder / "clusters.json", ClusterNames, advice="restore the file, or delete it")
    else:
        k = int(columns["labels"].max(initial=-1)) + 1
        clusters = ClusterNames([row_names.get(c, default_name(c)) for c in range(k)])
    arrays = {attribute: _map_array(folder / file) for attribute, file in ARRAYS.items()}
    locked = np.zeros(len(columns["labels"]), dtype=np.bool_)
    locked[clusters.locked] = True
    fields = {"names": clusters.names, "merged": clusters.merged, "excluded": clusters.excluded, "locked": locked}
    return {**columns, **fields, **arrays}


def _read_table(table: Path) -> tuple[dict[str, Any], dict[int, str]]:
    """The columns of ``labels.csv`` as keyword arguments of ``Clustering``, and the names of its clusters.

    Rows are converted block by block, because as strings they take several times the memory of the columns.
    """
    types = {"labels": np.int64, "confidence": np.float32, "margin": np.float32, "outlier": np.float32}
    blocks: dict[str, list[NDArray[Any]]] = {name: [np.empty(0, dtype)] for name, dtype in types.items()}
    ids: list[str] = []
    duplicate_of: list[str] = []
    names: dict[int, str] = {}
    with table.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        reader = csv.reader(file)
        header = tuple(next(reader, ()))
        valid = header in (COLUMNS, (*COLUMNS, DUPLICATE_OF))
        while valid and (rows := list(itertools.islice(reader, BLOCK_ROWS))):
            valid = all(len(row) == len(header) for row in rows)
            if not valid:
                break
            block_ids, labels, block_names, confidence, margin, outlier, *last = zip(*rows, strict=True)
            ids += block_ids
            duplicate_of += last[0] if last else ()
            try:
                for name, values in zip(types, (labels, confidence, margin, outlier), strict=True):
                    blocks[name].append(np.array(values, dtype=types[name]))
            except (ValueError, OverflowError) as error:
                raise ValueError(f"{table} has a value that is not a number ({error}); restore the file.") from None
            names.update(zip(blocks["labels"][-1].tolist(), block_names, strict=True))
    if not valid:
        raise ValueError(f"{table} must have the columns {', '.join(COLUMNS)} in every row.")
    groups = _group_rows(table, ids, duplicate_of) if DUPLICATE_OF in header else None
    return {"ids": ids, **{name: np.concatenate(parts) for name, parts in blocks.items()}, "groups": groups}, names


def read_duplicate_of(table: Path) -> NDArray[np.int64]:
    """(n,) the row of the first image of each image's group, from the last column of the ``labels.csv`` of a run."""
    with table.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        rows = list(csv.DictReader(file))
    return _group_rows(table, [row["path"] for row in rows], [row[DUPLICATE_OF] for row in rows])


def _group_rows(table: Path, ids: Sequence[str], duplicate_of: Sequence[str]) -> NDArray[np.int64]:
    """(n,) the row of the first image of each image's group, from the column ``duplicate_of``."""
    index = {id: row for row, id in enumerate(ids)}
    try:
        return np.array([index[first or id] for id, first in zip(ids, duplicate_of, strict=True)], dtype=np.int64)
    except KeyError as error:
        raise ValueError(f"{table} has a duplicate of {error}, which is not in the table; restore the file.") from None


def _map_array(path: Path) -> NDArray[Any] | None:
    """The memory-mapped array in ``path``, or None if there is no such file."""
    if not path.is_file():
        return None
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # a damaged header raises nearly any type
        raise ValueError(f"{path} cannot be read ({error}); restore the file, or delete it.") from None
    return array


def write_csv(path: str | os.PathLike[str], rows: Iterable[Sequence[object]], header: Sequence[str] = COLUMNS) -> None:
    """Write rows as CSV (RFC 4180, UTF-8); undecodable file names are written as their original bytes."""
    with open(path, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def default_name(cluster: int) -> str:
    """Default name of a cluster."""
    return f"Cluster {cluster}"


def _shortest(values: NDArray[np.float32]) -> list[float]:
    """Floats with the fewest digits that still round-trip through float32: 0.9, not 0.8999999761581421."""
    return [float(text) for text in values.astype(str)]

"""Export a clustering as folders of images, as a table, or as annotations for other tools."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
from filelock import FileLock, Timeout

from cgmcr2.clustering import Clustering, write_csv
from cgmcr2.clustering.annotations import write_annotations
from cgmcr2.clustering.filenames import UniqueNames, escaped, folder_name, loader_name
from cgmcr2.clustering.io import column_names, default_name
from cgmcr2.clustering.tables import write_arrow_table, write_text_table
from cgmcr2.features.sources import FeatureSource, Subset
from cgmcr2.images import Catalog, ImageItem
from cgmcr2.images.sources import FileSource, NpzSource

Kind = Literal["folders", "imagefolder", "csv", "json", "parquet", "arrow", "lance", "coco", "fiftyone", "label-studio"]
Link = Literal["copy", "hardlink", "symlink"]


class Exported(NamedTuple):
    """Result of an export: its path, the number of exported images, and (id, reason) of the missing ones."""

    path: Path
    written: int
    missing: list[tuple[str, str]]


def export(
    clustering: Clustering,
    out: str | os.PathLike[str],
    to: Kind = "folders",
    *,
    images: Catalog | None = None,
    features: FeatureSource | None = None,
    link: Link = "copy",
) -> Exported:
    """Export a clustering to ``out``, which must not exist. The export is atomic and never changes the originals.

    Excluded images are left out.

    Parameters
    ----------
    clustering : the clusters to export
    out : the folder or file to create
    to : export format

        - "folders": one folder of images per cluster, named after the cluster.
        - "imagefolder": the same for training programs: folders ``00-church``, ``01-...`` in the order of the cluster
          numbers, and ``metadata.csv``; read by torchvision's ``ImageFolder`` and by
          ``datasets.load_dataset("imagefolder", data_dir=...)`` of Hugging Face.
        - "csv", "json": a table with the columns of ``labels.csv``.
        - "parquet", "arrow" (an Arrow IPC file; both need ``cgmcr2[table]``), "lance" (needs ``cgmcr2[lance]``): the
          same table and the embedding, in columns of fixed-size lists. Rows are written in blocks.
        - "coco": a JSON file in which each image has one box, which covers it, in the category of its cluster.
        - "fiftyone": the labels.json of FiftyOne's FiftyOneImageClassificationDataset.
        - "label-studio": a folder with the tasks (tasks.json) and the labelling configuration (config.xml) of Label
          Studio; locked images are annotated, the clusters of others are predictions.
    images : the images; required for folders and for annotations
    features : (n, D) features of the images, added to a parquet, arrow or lance table
    link : "copy", "hardlink" or "symlink"; images in an archive are always copied

    Images of the same name are numbered: ``a.jpg``, ``a (2).jpg``.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "labels.csv"
    >>> export(Clustering(["a.jpg"], [0]), path, "csv").written
    1
    """
    out = Path(out)
    if to not in get_args(Kind):
        raise ValueError(f"Unknown export format {to!r}; choose from {', '.join(get_args(Kind))}.")
    if link not in get_args(Link):
        raise ValueError(f"Unknown kind of link {link!r}; choose from {', '.join(get_args(Link))}.")
    if os.path.lexists(out):
        raise FileExistsError(f"{out} already exists, and an export never overwrites; choose another path.")
    if features is not None and to not in ("parquet", "arrow", "lance"):
        raise ValueError(f"Features cannot be exported to {to}; choose from parquet, arrow, lance.")
    if clustering.excluded is not None:
        rows = np.flatnonzero(clustering.labels != clustering.excluded)
        clustering = clustering._with(probabilities=None).subset(rows)  # no format holds the probabilities
        features = None if features is None else Subset(features, rows)
    if to in ("csv", "json"):
        write_text_table(clustering, out, to)
        return Exported(out, len(clustering), [])
    if to in ("parquet", "arrow", "lance"):
        with new_folder(out) if to == "lance" else contextlib.nullcontext(out) as path:
            write_arrow_table(clustering, path, to, features)
        return Exported(out, len(clustering), [])
    if images is None:
        raise ValueError(f"Exporting to {to} needs the images; give the folder or archive that holds them.")
    if to in ("coco", "fiftyone"):
        return Exported(out, *write_annotations(clustering, out, to, images))
    with new_folder(out) as temporary:
        if to == "label-studio":
            written, missing = write_annotations(clustering, temporary, to, images)
        else:
            written, missing = _write_folders(clustering, temporary, images, link, imagefolder=to == "imagefolder")
    return Exported(out, written, missing)


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes ``path`` on success; one that a killed process left is deleted."""
    work = path.with_name(f".{path.name[:40]}.part")
    work.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(work / "lock", timeout=0):
            try:
                folder = work / "folder"
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                yield folder
                os.rename(folder, path)
            finally:
                shutil.rmtree(work, ignore_errors=True)
    except Timeout:
        raise ValueError(f"Another process is exporting to {path}; wait for it, or choose another path.") from None


def _write_folders(
    clustering: Clustering, folder: Path, images: Catalog, link: Link, *, imagefolder: bool
) -> tuple[int, list[tuple[str, str]]]:
    """Write the images into one folder per cluster; return the number written, and (id, reason) of missing ones."""
    targets = _target_paths(clustering, images, imagefolder=imagefolder)
    index = {id: number for number, id in enumerate(images.ids)}
    missing = [(id, f"not found in {images.origin}") for id in clustering.ids if id not in index]
    written = set()
    # In the catalog's order, because archives are read sequentially.
    for number, row in sorted((index[id], row) for row, id in enumerate(clustering.ids) if id in index):
        target = folder / targets[row]
        target.parent.mkdir(exist_ok=True)
        try:
            _write_image(images[number], target, link)
            written.add(row)
        except (FileNotFoundError, PermissionError, shutil.SpecialFileError, ValueError) as error:
            target.unlink(missing_ok=True)
            missing.append((clustering.ids[row], str(getattr(error, "strerror", None) or error)))
    if imagefolder:
        write_csv(folder / "metadata.csv", _metadata(clustering, targets, written), _metadata_columns(clustering))
    return len(written), missing


def _metadata_columns(clustering: Clustering) -> list[str]:
    path, cluster, _, *others = column_names(clustering)
    return ["file_name", "label", path, cluster, *others]


def _metadata(clustering: Clustering, targets: list[str], written: set[int]) -> Iterator[list[object]]:
    """The rows of ``metadata.csv``."""
    for row, (id, cluster, name, *others) in enumerate(clustering.records()):
        if row in written:
            values = [targets[row], name, id, cluster, *others]
            yield [escaped(value) if isinstance(value, str) else value for value in values]


def _target_paths(clustering: Clustering, images: Catalog, *, imagefolder: bool) -> list[str]:
    """Distinct paths ``folder/file`` of all rows, relative to the export."""
    unique, digits = UniqueNames(), max(2, len(str(clustering.n_clusters - 1)))
    folders = {}
    for cluster in clustering.clusters:
        name = folder_name(clustering.names[cluster], default_name(cluster))
        if imagefolder:
            name = loader_name(f"{cluster:0{digits}}-{re.sub('[^a-z0-9]+', '-', name.lower())}".strip("-"))
        folders[cluster] = unique.add(name)
    files = {cluster: UniqueNames() for cluster in clustering.clusters}
    suffix = ".png" if isinstance(images.source, NpzSource) else ""  # arrays are written as PNG
    targets = []
    for id, label in zip(clustering.ids, clustering.labels.tolist(), strict=True):
        name = id.rpartition("/")[2]
        name = name if name.strip(".") else "image"
        name = loader_name(name) if imagefolder else name
        targets.append(f"{folders[label]}/{files[label].add(name + suffix)}")
    return targets


def _write_image(item: ImageItem, target: Path, link: Link) -> None:
    if isinstance(item.source, FileSource):
        path = os.path.join(item.source.base, item.id)
        os.stat(path)  # raises if the file is missing; a symbolic link would be created nonetheless
        if link == "symlink":
            os.symlink(path, target)
        elif link == "hardlink":
            _hard_link(os.path.realpath(path), target)
        else:
            shutil.copy2(path, target)
        return
    loaded = item.load()
    if isinstance(loaded, np.ndarray):
        item.open().save(target)
    else:
        with loaded, target.open("xb") as file:
            shutil.copyfileobj(loaded, file)


def _hard_link(path: str, target: Path) -> None:
    try:
        os.link(path, target)
    except FileNotFoundError:
        raise
    except OSError as error:  # another disk, or a file system without hard links
        raise OSError(f"{path} cannot be hard linked ({error.strerror}); use copy or symlink.") from None

"""Clusters taken away: as folders of images or as a table. Originals stay where they are; nothing is overwritten."""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np

from cgmcr2._files import replacing, write_text
from cgmcr2.clustering import COLUMNS, Clustering, write_csv
from cgmcr2.clustering.filenames import Names, folder_name
from cgmcr2.images import Catalog, ImageItem
from cgmcr2.images.sources import FileSource, NpzSource

Kind = Literal["folders", "imagefolder", "csv", "json", "parquet"]
Link = Literal["copy", "hardlink", "symlink"]


class Exported(NamedTuple):
    """What an export made: ``path``, the number of images in it, and (id, reason) of those it had to leave out."""

    path: Path
    written: int
    missing: list[tuple[str, str]]


def export(
    clustering: Clustering,
    out: str | os.PathLike[str],
    to: Kind = "folders",
    *,
    images: Catalog | None = None,
    link: Link = "copy",
) -> Exported:
    """Write a clustering to ``out``, which must not exist yet, and appears whole or not at all.

    - "folders": a folder for each cluster, called as it is called, with its images; for people.
    - "imagefolder": the same for programs: folders ``00-church``, ``01-...`` that sort as the clusters are numbered,
      and ``metadata.csv``. torchvision's and Hugging Face's loaders of that name read it.
    - "csv", "json", "parquet" (needs ``cgmcr2[table]``): a table with the columns of ``labels.csv``.

    ``images`` says where the images are (for folders). ``link``: "copy", "hardlink" or "symlink"; what lies in an
    archive is always copied out of it. Images of the same name get a number: ``a.jpg``, ``a (2).jpg``.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "labels.csv"
    >>> export(Clustering(["a.jpg"], [0]), path, "csv").written
    1
    """
    out = Path(out)
    if to not in get_args(Kind):
        raise ValueError(f"There is no export to {to!r}: choose of {', '.join(get_args(Kind))}.")
    if link not in get_args(Link):
        raise ValueError(f"There is no link called {link!r}: choose of {', '.join(get_args(Link))}.")
    if os.path.lexists(out):
        raise FileExistsError(f"{out} exists already, and an export overwrites nothing: choose another place.")
    if to in ("csv", "json", "parquet"):
        _write_table(clustering, out, to)
        return Exported(out, len(clustering), [])
    if images is None:
        raise ValueError(f"Exporting to {to} needs the images; give the folder or archive that holds them.")
    temporary = out.with_name(f".{out.name[:80]}.{uuid.uuid4().hex}.part")
    temporary.mkdir(parents=True)
    try:
        written, missing = _fill(clustering, temporary, images, link, for_programs=to == "imagefolder")
        os.rename(temporary, out)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return Exported(out, written, missing)


def _fill(
    clustering: Clustering, folder: Path, images: Catalog, link: Link, *, for_programs: bool
) -> tuple[int, list[tuple[str, str]]]:
    """Make the clusters' folders and put the images into them; returns how many, and what is missing and why."""
    targets = _targets(clustering, images, for_programs=for_programs)
    index = {id: number for number, id in enumerate(images.ids)}
    missing = [(id, f"not found in {images.origin}") for id in clustering.ids if id not in index]
    done = set()
    # in the catalog's order: an archive is read forwards
    for place, row in sorted((index[id], row) for row, id in enumerate(clustering.ids) if id in index):
        target = folder / targets[row]
        target.parent.mkdir(exist_ok=True)
        try:
            _put(images[place], target, link)
            done.add(row)
        except (FileNotFoundError, PermissionError, shutil.SpecialFileError, ValueError) as error:
            target.unlink(missing_ok=True)
            missing.append((clustering.ids[row], str(getattr(error, "strerror", None) or error)))
    if for_programs:
        rows = ((targets[row], *record) for row, record in enumerate(clustering.records()) if row in done)
        write_csv(folder / "metadata.csv", rows, ("file_name", *COLUMNS))
    return len(done), missing


def _targets(clustering: Clustering, images: Catalog, *, for_programs: bool) -> list[str]:
    """For each row the path of its file in the export, ``folder/file``: no two the same."""
    folders, width = Names(), max(2, len(str(clustering.n_clusters - 1)))
    named = {}
    for cluster in clustering.clusters:
        name = folder_name(clustering.names[cluster], f"Cluster {cluster}")
        if for_programs:
            name = f"{cluster:0{width}}-{re.sub('[^a-z0-9]+', '-', name.lower())}".strip("-")
        named[cluster] = folders.unique(name)
    files = {cluster: Names() for cluster in clustering.clusters}
    suffix = ".png" if isinstance(images.source, NpzSource) else ""  # pixels, not files
    targets = []
    for id, label in zip(clustering.ids, clustering.labels.tolist(), strict=True):
        name = id.rpartition("/")[2]
        targets.append(f"{named[label]}/{files[label].unique((name if name.strip('.') else 'image') + suffix)}")
    return targets


def _put(item: ImageItem, target: Path, link: Link) -> None:
    if isinstance(item.source, FileSource):
        path = os.path.join(item.source.base, item.id)
        os.stat(path)  # a link to nothing would be made without a word
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
    except OSError as error:  # another disk, or a file system that has no such links
        raise OSError(f"{path} cannot be hard linked to there ({error.strerror}): use copy or symlink.") from None


def _write_table(clustering: Clustering, out: Path, to: str) -> None:
    if to == "csv":
        with replacing(out) as temporary:
            write_csv(temporary, clustering.records())
    elif to == "json":
        sizes = clustering.sizes()
        clusters = [{"cluster": c, "name": clustering.names[c], "size": int(sizes[c])} for c in clustering.clusters]
        images = [dict(zip(COLUMNS, record, strict=True)) for record in clustering.records()]
        write_text(out, json.dumps({"clusters": clusters, "images": images}, indent=1) + "\n")
    else:
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError as error:
            raise ImportError("A parquet file needs pyarrow: pip install 'cgmcr2[table]'.") from error
        # parquet's text is UTF-8: a byte of a file's name that is not is written out, as in caf\xe9.jpg
        paths = [os.fsencode(id).decode("utf-8", "backslashreplace") for id in clustering.ids]
        names = [clustering.names[label] for label in clustering.labels]
        table = pa.table(
            [
                pa.array(paths, pa.string()),
                pa.array(clustering.labels, pa.int32()),
                pa.array(names, pa.string()),
                pa.array(clustering.confidence, pa.float32()),
                pa.array(clustering.margin, pa.float32()),
                pa.array(clustering.outlier, pa.float32()),
            ],
            names=list(COLUMNS),
        )
        with replacing(out) as temporary:
            pq.write_table(table, temporary)

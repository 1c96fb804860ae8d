"""Extract features of images into a store; an interrupted extraction is resumed by repeating the call.

Images are assigned to shards by their order in the catalog alone. A shard is the unit of work, and it is done when its
file exists. So several processes or machines can share the work without a coordinator, and the shards have the same
bytes whoever writes them. Images that are added later form shards of their own; if the rounding of an encoder depends
on the batch, so do the last bits of their features.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import time
from collections.abc import Container, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from cgmcr2._progress import progress_bar
from cgmcr2.features.coverage import Coverage
from cgmcr2.features.manifest import Manifest, prepare_store, read_intact
from cgmcr2.features.shard_writer import ShardWriter
from cgmcr2.features.shards import shard_numbers, shard_paths
from cgmcr2.features.store import FeatureStore
from cgmcr2.images import DECODE_VERSION, Catalog

if TYPE_CHECKING:
    from cgmcr2.encoders.base import Encoder

logger = logging.getLogger(__name__)

Engine = Literal["local", "ray"]

_STALE_SECONDS = 3600  # writing a shard takes seconds, so older temporary files are from a killed process


def extract(
    catalog: Catalog,
    encoder: Encoder,
    path: str | os.PathLike[str],
    *,
    batch_size: int | str = "auto",
    shard_size: int | None = None,
    dtype: str | None = None,
    num_workers: int | None = None,
    progress: bool = True,
    shards: Container[int] | None = None,
    overwrite: bool = False,
    retry_errors: bool = False,
    engine: Engine = "local",
    address: str | None = None,
) -> FeatureStore:
    """Embed the images of ``catalog`` into the feature store at ``path``, and return the store.

    Rows of an existing store are reused unless the size or time of their file has changed. The rows are in the order of
    the catalog, without the images that could not be read. Those are listed in ``store.errors``.

    Parameters
    ----------
    catalog : Catalog
        The images.
    encoder : Encoder
        The image encoder.
    path : str or path-like
        Folder of the store.
    batch_size : int or "auto"
        Images per batch; halved when memory is exhausted.
    shard_size : int, optional
        Rows per shard of a new store; default: a power of two that gives about 256 shards, at least 256 rows.
    dtype : {"float32", "float16"}, optional
        Data type of a new store; default: float32.
    num_workers : int, optional
        Number of decoding threads; with Ray, the largest number of shards that are computed at the same time.
    progress : bool
        Show a progress bar, or log progress if standard error is not a terminal.
    shards : container of int, optional
        Numbers of the shards to compute, for example ``range(100)``; default: all. While images of other shards are
        missing, the store of the rows so far is returned. The call that finds none missing completes the store.
    overwrite : bool
        Delete ``shards`` (default: all) and compute them again.
    retry_errors : bool
        Try images that could not be read again.
    engine : {"local", "ray"}
        "ray" computes shards in parallel with Ray, whose workers load the encoder by its name.
    address : str, optional
        Address of a Ray cluster, "auto" for the one of this machine; default: start Ray on this machine.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from types import SimpleNamespace
    >>> from PIL import Image
    >>> folder = Path(tempfile.mkdtemp())
    >>> Image.new("RGB", (8, 8), (255, 0, 51)).save(folder / "a.png")
    >>> _ = (folder / "b.png").write_text("no image")
    >>> mean_colour = SimpleNamespace(
    ...     name="mean-colour", fingerprint="1", dim=3, image_size=8, preprocess=np.asarray,
    ...     encode=lambda batch: batch.mean(axis=(1, 2)).astype(np.float32) / 255,
    ... )
    >>> store = extract(Catalog.from_source(folder), mean_colour, folder / "store", progress=False)
    >>> store.ids, store[:].round(2).tolist(), store.errors
    (['a.png'], [[1.0, 0.0, 0.2...]], [('b.png', 'not an image, or an unsupported image format')])
    """
    path = Path(path).absolute()
    if batch_size != "auto" and (not isinstance(batch_size, int) or batch_size < 1):
        raise ValueError(f"batch_size must be 'auto' or an integer of at least 1, but is {batch_size!r}.")
    if engine not in get_args(Engine):
        raise ValueError(f"engine must be {' or '.join(get_args(Engine))}, but is {engine!r}.")
    if retry_errors and shards is not None:
        raise ValueError("retry_errors writes new shards, so it cannot be combined with shards: omit one of them.")
    manifest = _prepare(path, catalog, encoder, shard_size, dtype)
    _remove_stale_files(path)
    if overwrite:
        _delete_shards(path, (number for number in shard_numbers(path) if shards is None or number in shards))
    writer = ShardWriter(path, manifest, catalog, None if batch_size == "auto" else int(batch_size))
    coverage = Coverage(path, catalog, shards)
    if coverage.damaged:
        logger.info("Computing the images of %d damaged shards again", len(coverage.damaged))
    added = 0
    parts = coverage.plan(manifest.shard_size, shards, retry_errors=retry_errors)
    while parts:
        missing = sum(len(part.images) for part in parts)
        total = len(catalog) if shards is None else missing
        with progress_bar(total, initial=total - missing, desc="Embedding", unit="images", enabled=progress) as bar:
            if engine == "ray":
                from cgmcr2.features.ray_engine import write_with_ray

                added += write_with_ray(writer, encoder, parts, bar, workers=num_workers, address=address)
            else:
                added += writer.write(encoder, parts, num_workers=num_workers, on_image=bar.update)
        written = {part.number for part in parts}
        coverage = Coverage(path, catalog, shards)
        parts = coverage.plan(manifest.shard_size, shards)
        if lost := [part.number for part in parts if part.number in written]:
            raise OSError(
                f"{len(lost)} shards that workers have written, such as {lost[0]}, are not in {str(path)!r}: "
                "give a folder that all machines share."
            )
    if not coverage.untried.any():
        _delete_shards(path, coverage.damaged)  # no image of the catalog needs them
    store = _finish(path, catalog, manifest, coverage)
    store.added = added
    return store


def _prepare(path: Path, catalog: Catalog, encoder: Encoder, shard_size: int | None, dtype: str | None) -> Manifest:
    existing = read_intact(path)
    return prepare_store(
        path,
        Manifest(
            encoder=encoder.name,
            fingerprint=encoder.fingerprint,
            preprocessing=f"decoding {DECODE_VERSION} for {encoder.image_size} px",
            dim=encoder.dim,
            spaces=list(getattr(encoder, "spaces", ())),
            dtype=dtype or (existing.dtype if existing else "float32"),
            shard_size=shard_size or (existing.shard_size if existing else _default_shard_size(len(catalog))),
        ),
    )


def _finish(path: Path, catalog: Catalog, manifest: Manifest, coverage: Coverage) -> FeatureStore:
    """Return the store; if no image is missing, write its final manifest."""
    errors = [*catalog.errors, *((catalog.ids[index], coverage.reasons[index]) for index in sorted(coverage.reasons))]
    current = dataclasses.replace(manifest, runs=coverage.runs(), errors=errors)
    if coverage.untried.any():  # other processes compute the other shards
        return FeatureStore(path, current)
    current.catalog = catalog.fingerprint
    if current != manifest:
        current.write(path)
    if not current.runs:
        id, reason = errors[0]
        raise ValueError(
            f"None of the {len(errors)} files in {catalog.origin!r} could be read as an image "
            f"(the first: {id!r}, {reason}): give a folder, list or archive of images."
        )
    return FeatureStore(path, current)


def _delete_shards(path: Path, numbers: Iterable[int]) -> None:
    for number in numbers:
        rows, index = shard_paths(path, number)
        index.unlink(missing_ok=True)  # first, because it marks the shard as complete
        rows.unlink(missing_ok=True)


def _default_shard_size(images: int) -> int:
    """Return a shard size that gives about 256 shards: few enough to keep open, small enough to lose little work.

    >>> _default_shard_size(800), _default_shard_size(1_000_000), _default_shard_size(100_000_000)
    (256, 4096, 16384)
    """
    return min(16384, max(256, 1 << max(0, images // 256).bit_length()))


def _remove_stale_files(path: Path) -> None:
    for file in path.glob(".*.part*"):
        with contextlib.suppress(OSError):
            if time.time() - file.stat().st_mtime > _STALE_SECONDS:
                file.unlink()

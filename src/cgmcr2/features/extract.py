"""Extract features of images into a store; an interrupted extraction is resumed by repeating the call.

Images are assigned to shards by their order in the catalog alone, and a batch never spans two shards. So a resumed
extraction computes the same batches and writes the same bytes as an uninterrupted one. Images that are added later form
their own batches; if the rounding of an encoder depends on the batch, so do the last bits of their features.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import logging
import os
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cgmcr2._checksums import DamagedFileError
from cgmcr2._progress import ProgressBar, progress_bar
from cgmcr2.features.coverage import Coverage
from cgmcr2.features.manifest import Manifest, prepare_store, read_intact
from cgmcr2.features.shards import ShardIndex, read_index, shard_paths, verify_rows, write_shard
from cgmcr2.features.store import FeatureStore
from cgmcr2.images import DECODE_VERSION, Catalog, iter_decoded

if TYPE_CHECKING:
    from cgmcr2.encoders.base import Encoder

logger = logging.getLogger(__name__)

DEFAULT_BATCH_SIZE = 32  # sufficient for a CPU; encoders on a GPU define their own `batch_size`
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
    shard_index: int = 0,
    num_shards: int = 1,
) -> FeatureStore:
    """Embed the images of ``catalog`` into the feature store at ``path``, and return the store.

    Rows of an existing store are reused unless the size or time of their file has changed. The rows are in the order of
    the catalog, without the images that could not be read. Those are listed in ``store.errors`` and tried again by the
    next call.

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
        Rows per shard of a new store.
    dtype : {"float32", "float16"}, optional
        Data type of a new store; default: float32.
    num_workers : int, optional
        Number of decoding threads.
    progress : bool
        Show a progress bar, or log progress if standard error is not a terminal.
    shard_index, num_shards : int
        Number of this machine and of all machines, if several share one file system. The last one to finish completes
        the store.

    Examples
    --------
    >>> import tempfile
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
    path = Path(path)
    if batch_size != "auto" and (not isinstance(batch_size, int) or batch_size < 1):
        raise ValueError(f"batch_size must be 'auto' or an integer of at least 1, but is {batch_size!r}.")
    if not 0 <= shard_index < num_shards:
        raise ValueError(f"shard_index must be from 0 to num_shards - 1, but they are {shard_index} and {num_shards}.")
    manifest = _prepare(path, catalog, encoder, shard_size, dtype)
    _remove_stale_files(path)
    writer = _ShardWriter(path, manifest, catalog, _Batcher(encoder, batch_size), num_workers)
    coverage = Coverage(path, catalog)
    if coverage.damaged:
        logger.info("Computing the images of %d damaged shards again", len(coverage.damaged))
    added = 0
    shards = coverage.plan(manifest.shard_size, shard_index, num_shards, retry_errors=True)
    while shards:
        missing = sum(len(indices) for _, indices in shards)
        bar = progress_bar(
            len(catalog), initial=len(catalog) - missing, desc="Embedding", unit="images", enabled=progress
        )
        with bar, warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="PIL")  # damaged files are reported as errors
            added += writer.write(shards, coverage.reasons, bar)
        coverage = Coverage(path, catalog)
        shards = coverage.plan(manifest.shard_size, shard_index, num_shards)
    if coverage.untried.any():  # other machines are still working
        return FeatureStore.open(path, partial=True)
    for number in coverage.damaged:  # no image of the catalog needs it
        for file in shard_paths(path, number):
            file.unlink(missing_ok=True)
    store = _complete(path, catalog, manifest, coverage)
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
            dtype=dtype or (existing.dtype if existing else "float32"),
            shard_size=shard_size or (existing.shard_size if existing else _default_shard_size(len(catalog))),
        ),
    )


def _complete(path: Path, catalog: Catalog, manifest: Manifest, coverage: Coverage) -> FeatureStore:
    """Write the final manifest and open the store."""
    errors = [*catalog.errors, *((catalog.ids[index], coverage.reasons[index]) for index in sorted(coverage.reasons))]
    complete = dataclasses.replace(manifest, catalog=catalog.fingerprint, runs=coverage.runs(), errors=errors)
    if complete != manifest:
        complete.write(path)
    store = FeatureStore(path, complete)
    if not len(store):
        id, reason = store.errors[0]
        raise ValueError(
            f"None of the {len(store.errors)} files in {catalog.origin!r} could be read as an image "
            f"(the first: {id!r}, {reason}): give a folder, list or archive of images."
        )
    return store


class _Batcher:
    """Encodes images in batches, which are halved when memory is exhausted."""

    def __init__(self, encoder: Encoder, batch_size: int | str) -> None:
        self.encoder = encoder
        self.size = int(getattr(encoder, "batch_size", DEFAULT_BATCH_SIZE) if batch_size == "auto" else batch_size)

    def encode(self, inputs: list[npt.NDArray[Any]]) -> npt.NDArray[np.float32]:
        while True:
            try:
                parts = [self._encode(inputs[i : i + self.size]) for i in range(0, len(inputs), self.size)]
                return np.concatenate(parts)
            except Exception as error:
                if self.size == 1 or not _is_out_of_memory(error):
                    raise
                self.size //= 2
                logger.info("Out of memory: reducing the batch size to %d", self.size)

    def _encode(self, inputs: list[npt.NDArray[Any]]) -> npt.NDArray[np.float32]:
        features = np.asarray(self.encoder.encode(np.stack(inputs)))
        if features.shape != (len(inputs), self.encoder.dim):
            raise ValueError(
                f"The encoder {self.encoder.name} returned features of shape {features.shape} for {len(inputs)} "
                f"images, but its dim is {self.encoder.dim}."
            )
        return features


class _Shard:
    """Rows and errors of a shard in memory."""

    def __init__(self, catalog: Catalog, capacity: int, manifest: Manifest) -> None:
        self.catalog = catalog
        self.rows = np.empty((capacity, manifest.dim), manifest.dtype)
        self.index = ShardIndex(identity=manifest.identity)
        self.reasons: dict[int, str] = {}

    def add(self, indices: list[int], features: npt.NDArray[np.float32]) -> None:
        with np.errstate(over="ignore"):
            rows = features.astype(self.rows.dtype)
        for index, row in zip(indices, rows, strict=True):
            if not np.isfinite(row).all():
                self.add_error(index, f"the encoder returned a feature that is not finite in {self.rows.dtype}")
                continue
            self.rows[len(self.index.ids)] = row
            item = self.catalog[index]
            self.index.ids.append(item.id)
            self.index.sizes.append(item.size)
            self.index.stamps.append(item.stamp)

    def add_error(self, index: int, reason: str) -> None:
        item = self.catalog[index]
        self.reasons[index] = reason
        self.index.errors.append((item.id, item.size, item.stamp, reason))

    def write(self, path: Path, number: int) -> None:
        with contextlib.suppress(DamagedFileError):
            verify_rows(path, number, read_index(path, number))
            return  # another process with the same command has written it
        write_shard(path, number, self.rows[: len(self.index.ids)], self.index)


@dataclasses.dataclass
class _ShardWriter:
    """Decodes, encodes and writes shards; decoding continues across shard boundaries."""

    path: Path
    manifest: Manifest
    catalog: Catalog
    batcher: _Batcher
    num_workers: int | None

    def write(
        self, shards: list[tuple[int, npt.NDArray[np.int64]]], previous_reasons: dict[int, str], bar: ProgressBar
    ) -> int:
        """Compute and write ``shards``, and return the number of rows.

        A shard that would only repeat ``previous_reasons`` is not written.
        """
        added = 0
        stream = iter_decoded(
            self.catalog,
            self.batcher.encoder.preprocess,
            indices=itertools.chain.from_iterable(indices.tolist() for _, indices in shards),
            size=self.batcher.encoder.image_size,
            num_workers=self.num_workers,
            window=self.batcher.size + DEFAULT_BATCH_SIZE,  # decode the next batch while this one is encoded
        )
        with contextlib.closing(stream):
            for number, indices in shards:
                shard = _Shard(self.catalog, len(indices), self.manifest)
                batch: list[tuple[int, npt.NDArray[Any]]] = []
                for count, (index, result) in enumerate(itertools.islice(stream, len(indices)), start=1):
                    if isinstance(result, str):
                        shard.add_error(index, result)
                    else:
                        batch.append((index, result))
                    if batch and (len(batch) >= self.batcher.size or count == len(indices)):
                        shard.add([index for index, _ in batch], self.batcher.encode([image for _, image in batch]))
                        batch = []
                    bar.update()
                added += len(shard.index.ids)
                new_reasons = any(previous_reasons.get(index) != text for index, text in shard.reasons.items())
                if shard.index.ids or new_reasons:
                    shard.write(self.path, number)
        return added


def _default_shard_size(images: int) -> int:
    """Return a shard size that gives about 256 shards: few enough to keep open, small enough to lose little work.

    >>> _default_shard_size(800), _default_shard_size(1_000_000), _default_shard_size(100_000_000)
    (256, 4096, 16384)
    """
    return min(16384, max(256, 1 << max(0, images // 256).bit_length()))


def _is_out_of_memory(error: Exception) -> bool:
    """Return whether main or GPU memory is exhausted; the message is compared to avoid importing torch."""
    return isinstance(error, MemoryError) or "out of memory" in str(error).lower()


def _remove_stale_files(path: Path) -> None:
    for file in path.glob(".*.part*"):
        with contextlib.suppress(OSError):
            if time.time() - file.stat().st_mtime > _STALE_SECONDS:
                file.unlink()

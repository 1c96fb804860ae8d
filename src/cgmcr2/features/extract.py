"""Images to features on disk, so that it can be killed at any moment and goes on where it was.

The work is cut into shards by the order of the catalog alone, and a batch never reaches across shards. So an
interrupted run, started again, computes the same batches and gives the same bytes as one that was left alone. (Images
added later come in batches of their own: where an encoder rounds differently in other batches, so do their rows.)
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from cgmcr2.features.shards import ShardIndex, read_index, shard_numbers, write_shard
from cgmcr2.features.store import FeatureStore, Manifest, prepare
from cgmcr2.images import DECODE_VERSION, Catalog, iter_decoded

if TYPE_CHECKING:
    from cgmcr2.encoders.base import Encoder

DEFAULT_BATCH_SIZE = 32  # enough for a CPU; an encoder on a GPU can name its own as `batch_size`
_STALE_SECONDS = 3600  # writing a shard takes seconds: temporary files older than this are from a killed run


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
    """Encode the images of ``catalog`` into the feature store at ``path``, and return it.

    What the store already holds is kept, if the file has neither another size nor another time. The rows are in the
    order of the catalog, for the images that could be read; the rest is in ``store.errors``, and is tried again the
    next time.

    ``batch_size``: images at a time, halved when the memory does not suffice. ``shard_size``, ``dtype`` ("float32" or
    "float16"): of a new store. ``num_workers``: threads that decode. ``shard_index`` and ``num_shards``: of several
    machines that share the file system, which one this is; whichever finishes last completes the store.

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
        raise ValueError(f"batch_size must be 'auto' or a number of at least 1, but is {batch_size!r}.")
    if not 0 <= shard_index < num_shards:
        raise ValueError(f"shard_index must be from 0 to num_shards - 1, but they are {shard_index} and {num_shards}.")
    there = Manifest.read(path) if (path / "manifest.json").exists() else None
    manifest = prepare(
        path,
        Manifest(
            encoder=encoder.name,
            fingerprint=encoder.fingerprint,
            preprocessing=f"decoding {DECODE_VERSION} for {encoder.image_size} px",
            dim=encoder.dim,
            dtype=dtype or (there.dtype if there else "float32"),
            shard_size=shard_size or (there.shard_size if there else _shard_size(len(catalog))),
        ),
    )
    _remove_stale_files(path)
    batches = _Batches(encoder, batch_size)
    added, first_pass = 0, True
    while True:
        done = _Done(path, catalog)
        mine = np.arange(len(catalog)) // manifest.shard_size % num_shards == shard_index
        todo = list(_cut(np.flatnonzero(done.untried & mine), manifest.shard_size))
        if first_pass:
            # what failed before may work now (HEIC installed, a disk back); at the end, so as not to shift the rest
            todo += _cut(np.array(sorted(p for p in done.reasons if mine[p]), np.int64), manifest.shard_size)
        if not todo:
            break
        taken = set(done.shards)
        numbers = (number for number in itertools.count(shard_index, num_shards) if number not in taken)
        plan = list(zip(numbers, todo, strict=False))
        bar = tqdm(
            total=len(catalog),
            initial=len(catalog) - sum(map(len, todo)),
            desc="embedding",
            unit=" images",
            disable=None if progress else True,  # None: only where there is a terminal
        )
        with bar, warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="PIL")  # what Pillow thinks of broken files is in the errors
            added += _run(plan, catalog, batches, path, manifest, done.reasons, num_workers, bar)
        first_pass = False
    if done.untried.any():  # other machines are at work
        return FeatureStore.open(path, partial=True)
    errors = [*catalog.errors, *((catalog.ids[place], done.reasons[place]) for place in sorted(done.reasons))]
    complete = dataclasses.replace(manifest, catalog=catalog.fingerprint, runs=done.runs(), errors=errors)
    if complete != manifest:
        complete.write(path)
    store = FeatureStore(path, complete)
    store.added = added
    if not len(store):
        id, reason = store.errors[0]
        raise ValueError(
            f"None of the {len(store.errors)} files in {catalog.origin!r} could be read as an image "
            f"(the first: {id!r}, {reason}): give a folder, list or archive of images."
        )
    return store


class _Done:
    """What the shards hold of a catalog: for each image the shard and row, or -1, or the reason why there is none."""

    def __init__(self, path: Path, catalog: Catalog) -> None:
        self.shard = np.full(len(catalog), -1, np.int64)
        self.row = np.full(len(catalog), -1, np.int64)
        self.reasons: dict[int, str] = {}
        self.shards = shard_numbers(path)
        positions, sizes, stamps = catalog.positions, catalog.sizes.tolist(), catalog.stamps.tolist()
        for number in self.shards:
            try:
                index = read_index(path, number)
            except ValueError:  # damaged: its images count as not done
                continue
            for row, (id, size, stamp) in enumerate(zip(index.ids, index.sizes, index.stamps, strict=True)):
                place = positions.get(id, -1)
                if place >= 0 and sizes[place] == size and stamps[place] == stamp and self.shard[place] < 0:
                    self.shard[place], self.row[place] = number, row
            for id, size, stamp, reason in index.errors:
                place = positions.get(id, -1)
                if place >= 0 and sizes[place] == size and stamps[place] == stamp:
                    self.reasons[place] = reason
        self.reasons = {place: reason for place, reason in self.reasons.items() if self.shard[place] < 0}
        self.untried = self.shard < 0  # (n,)
        self.untried[list(self.reasons)] = False

    def runs(self) -> list[tuple[int, int, int]]:
        """The rows in the order of the catalog, as (shard, first row, number of rows)."""
        has_row = self.shard >= 0
        shard, row = self.shard[has_row], self.row[has_row]
        starts = (
            np.flatnonzero(np.r_[True, (np.diff(shard) != 0) | (np.diff(row) != 1)]) if len(row) else np.zeros(0, int)
        )
        lengths = np.diff(np.r_[starts, len(row)])
        return list(zip(shard[starts].tolist(), row[starts].tolist(), lengths.tolist(), strict=True))


class _Batches:
    """An encoder that is given as many images at a time as the memory allows."""

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

    def _encode(self, inputs: list[npt.NDArray[Any]]) -> npt.NDArray[np.float32]:
        features = np.asarray(self.encoder.encode(np.stack(inputs)))
        if features.shape != (len(inputs), self.encoder.dim):
            raise ValueError(
                f"The encoder {self.encoder.name} gave features of shape {features.shape} for {len(inputs)} images, "
                f"but says that they are {self.encoder.dim} wide."
            )
        return features


class _Shard:
    """The rows and errors of a shard while it grows."""

    def __init__(self, catalog: Catalog, capacity: int, manifest: Manifest) -> None:
        self.catalog = catalog
        self.rows = np.empty((capacity, manifest.dim), manifest.dtype)
        self.index = ShardIndex()
        self.reasons: dict[int, str] = {}

    def add(self, places: list[int], features: npt.NDArray[np.float32]) -> None:
        with np.errstate(over="ignore"):
            rows = features.astype(self.rows.dtype)
        for place, row in zip(places, rows, strict=True):
            if not np.isfinite(row).all():
                self.fail(place, f"the encoder gave a feature that is not finite in {self.rows.dtype}")
                continue
            self.rows[len(self.index.ids)] = row
            item = self.catalog[place]
            self.index.ids.append(item.id)
            self.index.sizes.append(item.size)
            self.index.stamps.append(item.stamp)

    def fail(self, place: int, reason: str) -> None:
        item = self.catalog[place]
        self.reasons[place] = reason
        self.index.errors.append((item.id, item.size, item.stamp, reason))

    def write(self, path: Path, number: int) -> None:
        with contextlib.suppress(ValueError):
            read_index(path, number)
            return  # the same command runs twice and the other was faster
        write_shard(path, number, self.rows[: len(self.index.ids)], self.index)


def _run(
    plan: list[tuple[int, npt.NDArray[np.int64]]],
    catalog: Catalog,
    batches: _Batches,
    path: Path,
    manifest: Manifest,
    known: dict[int, str],
    num_workers: int | None,
    bar: tqdm[Any],
) -> int:
    """Compute and write the shards of ``plan``; return the number of rows. One stream of images runs through all."""
    added = 0
    stream = iter_decoded(
        catalog,
        batches.encoder.preprocess,
        indices=itertools.chain.from_iterable(places.tolist() for _, places in plan),
        size=batches.encoder.image_size,
        num_workers=num_workers,
        window=batches.size + DEFAULT_BATCH_SIZE,  # the next batch is decoded while this one is encoded
    )
    with contextlib.closing(stream):
        for number, places in plan:
            shard = _Shard(catalog, len(places), manifest)
            waiting: list[tuple[int, npt.NDArray[Any]]] = []
            for count, (place, result) in enumerate(itertools.islice(stream, len(places)), start=1):
                if isinstance(result, str):
                    shard.fail(place, result)
                else:
                    waiting.append((place, result))
                if waiting and (len(waiting) >= batches.size or count == len(places)):
                    shard.add([place for place, _ in waiting], batches.encode([values for _, values in waiting]))
                    waiting = []
                bar.update()
            added += len(shard.index.ids)
            if shard.index.ids or any(known.get(place) != reason for place, reason in shard.reasons.items()):
                shard.write(path, number)
    return added


def _cut(places: npt.NDArray[np.int64], length: int) -> list[npt.NDArray[np.int64]]:
    return [places[start : start + length] for start in range(0, len(places), length)]


def _shard_size(images: int) -> int:
    """Small enough to lose little when killed, large enough for about 256 shards, which can all be kept open.

    >>> _shard_size(800), _shard_size(1_000_000), _shard_size(100_000_000)
    (256, 4096, 16384)
    """
    return min(16384, max(256, 1 << max(0, images // 256).bit_length()))


def _is_out_of_memory(error: Exception) -> bool:
    """Of the processor or of a GPU, by name: features need no torch."""
    return isinstance(error, MemoryError) or "out of memory" in str(error).lower()


def _remove_stale_files(path: Path) -> None:
    for file in path.glob(".*.part*"):
        with contextlib.suppress(OSError):
            if time.time() - file.stat().st_mtime > _STALE_SECONDS:
                file.unlink()

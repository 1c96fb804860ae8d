"""Decode and encode the images of shards, and write them.

A batch never spans two shards, and the images of a shard are fixed before it is written. So the bytes of a shard do not
depend on which process writes it, how many there are, or how often they were interrupted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import logging
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cgmcr2._checksums import DamagedFileError
from cgmcr2.features.coverage import Part
from cgmcr2.features.manifest import Manifest
from cgmcr2.features.shards import ShardIndex, read_index, verify_rows, write_shard
from cgmcr2.images import Catalog, iter_decoded

if TYPE_CHECKING:
    from cgmcr2.encoders.base import Encoder

logger = logging.getLogger(__name__)

DEFAULT_BATCH_SIZE = 32  # sufficient for a CPU; encoders on a GPU define their own `batch_size`


@dataclasses.dataclass(frozen=True)
class ShardWriter:
    """Writes shards of the store at ``path``; it can be pickled and used in another process."""

    path: Path
    manifest: Manifest
    catalog: Catalog
    batch_size: int | None = None  # None: that of the encoder

    def write(
        self,
        encoder: Encoder,
        parts: Sequence[Part],
        *,
        num_workers: int | None = None,
        on_image: Callable[[], object] = lambda: None,
    ) -> int:
        """Compute and write ``parts``, and return the number of rows; decoding continues across shard boundaries.

        A shard that would only repeat the known reasons of its images is not written.
        """
        batcher = _Batcher(encoder, self.batch_size)
        added = 0
        stream = iter_decoded(
            self.catalog,
            encoder.preprocess,
            indices=itertools.chain.from_iterable(part.images.tolist() for part in parts),
            size=encoder.image_size,
            num_workers=num_workers,
            window=batcher.size + DEFAULT_BATCH_SIZE,  # decode the next batch while this one is encoded
        )
        with contextlib.closing(stream), warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="PIL")  # damaged files are reported as errors
            for part in parts:
                shard = _Shard(self.catalog, len(part.images), self.manifest)
                batch: list[tuple[int, npt.NDArray[Any]]] = []
                for count, (index, result) in enumerate(itertools.islice(stream, len(part.images)), start=1):
                    if isinstance(result, str):
                        shard.add_error(index, result)
                    else:
                        batch.append((index, result))
                    if batch and (len(batch) >= batcher.size or count == len(part.images)):
                        shard.add([index for index, _ in batch], batcher.encode([image for _, image in batch]))
                        batch = []
                    on_image()
                added += len(shard.index.ids)
                if shard.index.ids or shard.reasons != part.reasons:
                    shard.write(self.path, part.number)
        return added


class _Batcher:
    """Encodes images in batches, which are halved when memory is exhausted."""

    def __init__(self, encoder: Encoder, batch_size: int | None) -> None:
        self.encoder = encoder
        self.size = batch_size or int(getattr(encoder, "batch_size", DEFAULT_BATCH_SIZE))

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
            return  # another process has written it
        write_shard(path, number, self.rows[: len(self.index.ids)], self.index)


def _is_out_of_memory(error: Exception) -> bool:
    """Return whether main or GPU memory is exhausted; the message is compared to avoid importing torch."""
    return isinstance(error, MemoryError) or "out of memory" in str(error).lower()

"""The manifest of a feature store: which encoder made it, and which rows of its shards are in use."""

from __future__ import annotations

import contextlib
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec

from cgmcr2._checksums import DamagedFileError
from cgmcr2.features.sealed import read_sealed, write_sealed
from cgmcr2.features.shards import read_index, shard_numbers

FILE_NAME = "manifest.json"
FORMAT = 2
DTYPES = ("float32", "float16")

Natural = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]


@dataclass
class Manifest:
    """Content of ``manifest.json``; rows with different :attr:`identity` are never mixed."""

    encoder: str
    fingerprint: str  # hash of the encoder's weights and preprocessing
    preprocessing: str  # how image files were decoded for the encoder
    dim: Positive
    dtype: Annotated[str, msgspec.Meta(pattern="^(float32|float16)$")]
    shard_size: Positive
    catalog: str | None = None  # fingerprint of the catalog
    # ranges (shard, first row, count) in order; None while the store is unfinished
    runs: list[tuple[Natural, Natural, Positive]] | None = None
    errors: list[tuple[str, str]] = field(default_factory=list)  # (id, reason) of the images without a row
    spaces: list[Positive] = field(default_factory=list)  # dimensions of each encoder, if there are several
    format: int = FORMAT

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """Read the manifest of the store at ``path``."""
        file = path / FILE_NAME
        if not file.is_file():
            kind = FileNotFoundError if not path.exists() else ValueError
            raise kind(f"{str(path)!r} is not a feature store (no {FILE_NAME}): create one with cgmcr2 embed.")
        return read_sealed(file, cls, format=FORMAT)

    def write(self, path: Path) -> None:
        """Write this manifest to the store at ``path``."""
        write_sealed(path / FILE_NAME, asdict(self))

    @property
    def identity(self) -> list[str | int]:
        """Everything that determines the values of a row."""
        return [self.fingerprint, self.preprocessing, self.dim, self.dtype]

    def __str__(self) -> str:
        return (
            f"the encoder {self.encoder} (fingerprint {self.fingerprint}, "
            f"{self.preprocessing or 'no decoding'}, {self.dim} dimensions, {self.dtype})"
        )


def prepare_store(path: Path, manifest: Manifest, *, must_be_new: bool = False) -> Manifest:
    """Create the folder of a store, or return the manifest of the existing store if its identity is the same."""
    if manifest.dtype not in DTYPES:
        raise ValueError(f"dtype must be {' or '.join(DTYPES)}, but is {manifest.dtype!r}.")
    if manifest.shard_size < 1:
        raise ValueError(f"shard_size must be at least 1, but is {manifest.shard_size}.")
    if path.exists() and not path.is_dir():
        raise ValueError(f"{str(path)!r} is a file: give a new folder for the feature store.")
    if must_be_new and (path / FILE_NAME).exists():
        raise ValueError(f"There already is a feature store in {str(path)!r}: give a new folder, or delete it.")
    _refuse_other_files(path)
    existing = read_intact(path)
    if existing is None:
        path.mkdir(parents=True, exist_ok=True)
        _check_shards(path, manifest)
        manifest.write(path)
        return manifest
    if existing.identity != manifest.identity:
        raise ValueError(
            f"The feature store {str(path)!r} was made with {existing}, but now it is {manifest}: "
            "give another folder, or delete this one."
        )
    return existing


def read_intact(path: Path) -> Manifest | None:
    """Read the manifest of the store at ``path``; None if it is missing or damaged."""
    try:
        return Manifest.read(path) if (path / FILE_NAME).exists() else None
    except DamagedFileError:
        return None


def _refuse_other_files(path: Path) -> None:
    """Raise ``ValueError`` if the folder ``path`` has files, but neither a manifest nor shards."""
    is_store = not path.exists() or (path / FILE_NAME).exists() or shard_numbers(path)
    if not is_store and any(not name.startswith(".") for name in os.listdir(path)):
        raise ValueError(f"{str(path)!r} contains other files than a feature store: give a new or empty folder.")


def _check_shards(path: Path, manifest: Manifest) -> None:
    """Raise ``ValueError`` if shards without a manifest have another identity."""
    for number in shard_numbers(path):
        with contextlib.suppress(DamagedFileError):
            if read_index(path, number).identity != manifest.identity:
                raise ValueError(
                    f"The manifest of the feature store {str(path)!r} is missing or damaged, and its shards were not "
                    f"made with {manifest}: give the same options as before, or another folder."
                )

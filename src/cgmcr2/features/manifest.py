"""The manifest of a feature store: which encoder made it, and which rows of its shards are in use."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from cgmcr2._files import write_text

FILE_NAME = "manifest.json"
DTYPES = ("float32", "float16")


@dataclass
class Manifest:
    """Content of ``manifest.json``; rows with different :attr:`identity` are never mixed."""

    encoder: str
    fingerprint: str  # hash of the encoder's weights and preprocessing
    preprocessing: str  # how image files were decoded for the encoder
    dim: int
    dtype: str
    shard_size: int
    catalog: str | None = None  # fingerprint of the catalog
    runs: list[tuple[int, int, int]] | None = None  # ranges (shard, first row, count) in order; None while unfinished
    errors: list[tuple[str, str]] = field(default_factory=list)  # (id, reason) of the images without a row
    format: int = 1

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """Read the manifest of the store at ``path``."""
        file = path / FILE_NAME
        if not file.is_file():
            kind = FileNotFoundError if not path.exists() else ValueError
            raise kind(f"{str(path)!r} is not a feature store (no {FILE_NAME}): create one with cgmcr2 embed.")
        try:
            manifest = cls(**json.loads(file.read_text(encoding="utf-8")))
            if manifest.runs is not None:
                manifest.runs = [(int(shard), int(first), int(count)) for shard, first, count in manifest.runs]
            manifest.errors = [(str(id), str(reason)) for id, reason in manifest.errors]
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"The manifest of the feature store {str(path)!r} is damaged ({error}): create the store again."
            ) from None
        if manifest.format != 1:
            raise ValueError(
                f"The feature store {str(path)!r} has format {manifest.format}, but this version reads format 1: "
                "update cgmcr2."
            )
        return manifest

    def write(self, path: Path) -> None:
        """Write this manifest to the store at ``path``, one line per field, in ASCII."""
        lines = (f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in asdict(self).items())
        write_text(path / FILE_NAME, "{\n" + ",\n".join(lines) + "\n}\n")

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
    if not (path / FILE_NAME).exists():
        if path.exists() and any(not name.startswith(".") for name in os.listdir(path)):
            raise ValueError(f"{str(path)!r} contains other files than a feature store: give a new or empty folder.")
        path.mkdir(parents=True, exist_ok=True)
        manifest.write(path)
        return manifest
    if must_be_new:
        raise ValueError(f"There already is a feature store in {str(path)!r}: give a new folder, or delete it.")
    existing = Manifest.read(path)
    if existing.identity != manifest.identity:
        raise ValueError(
            f"The feature store {str(path)!r} was made with {existing}, but now it is {manifest}: "
            "give another folder, or delete this one."
        )
    return existing

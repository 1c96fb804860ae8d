"""Features from arrays, memory maps, files and stores, read in batches of rows."""

from __future__ import annotations

import contextlib
import dataclasses
import mmap
import os
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import xxhash

from cgmcr2._arrays import float32_rows
from cgmcr2._checksums import DamagedFileError
from cgmcr2.encoders.registry import SEPARATOR
from cgmcr2.features.npy import map_npy, npz_names, read_npz
from cgmcr2.images.limits import check_ratio
from cgmcr2.images.storage import is_url
from cgmcr2.images.tables import has_image_column

FloatArray = npt.NDArray[np.floating[Any]]
BLOCK_ROWS = 8_192  # rows read at once
MAPPED_ROWS = 128  # rows read from a memory map before its pages are released
SUFFIXES = (".npy", ".npz", ".pt", ".pth", ".parquet")


@runtime_checkable
class FeatureSource(Protocol):
    """Features of shape (n, D), not necessarily in memory: an array, a memory map, a ``FeatureStore``."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __getitem__(self, rows: Any, /) -> Any: ...


@dataclasses.dataclass
class FeatureFile:
    """Content of a feature file: features of shape (n, D), and optional annotations of the rows."""

    features: FeatureSource
    labels: npt.NDArray[Any] | None = None
    split: npt.NDArray[Any] | None = None  # 0: training, 1: test
    classes: list[str] | None = None
    ids: list[str] | None = None
    fingerprint: str | None = None  # of the encoder

    def rows(self, part: str) -> npt.NDArray[np.int64]:
        """Return the rows of a part, "train", "test" or "all"; all rows if there is no split."""
        if part not in ("train", "test", "all"):
            raise ValueError(f"part must be 'train', 'test' or 'all', but is {part!r}.")
        if self.split is None or part == "all":
            return np.arange(self.features.shape[0])
        return np.flatnonzero(np.asarray(self.split) == (0 if part == "train" else 1))


def read_rows(source: FeatureSource, rows: Any) -> npt.NDArray[np.float32]:
    """Return ``source[rows]`` as a writable float32 array, as torch requires; copied only if necessary.

    Rows of extreme size are scaled, see ``float32_rows``.
    """
    if not isinstance(source, np.memmap) or source.mode != "r":
        return float32_rows(source[rows])
    if isinstance(rows, slice):
        values = float32_rows(source[rows])
        release(source)
        return values
    # reading a row maps up to 2 MB around it, so a large batch of random rows would map the whole file
    indices = np.arange(source.shape[0])[rows]
    values = np.empty((len(indices), *source.shape[1:]), dtype=np.float32)
    order = np.argsort(indices, kind="stable")
    for group in np.split(order, range(MAPPED_ROWS, len(order), MAPPED_ROWS)):
        values[group] = float32_rows(source[indices[group]])
        release(source)
    return values


def release(array: npt.NDArray[Any]) -> None:
    """Release the pages of a read-only memory map from this process; they stay in the system's cache.

    Otherwise, reading a file larger than memory would fill the memory.
    """
    mapping = getattr(array, "_mmap", None)
    if mapping is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapping.madvise(mmap.MADV_DONTNEED)


def space_widths(source: FeatureSource) -> tuple[int, ...]:
    """The widths of the feature spaces that the rows of ``source`` consist of."""
    return getattr(source, "spaces", (int(source.shape[1]),))


class SideBySide:
    """Features of the same n images in several spaces, such as those of two encoders, concatenated in each row.

    >>> SideBySide([np.zeros((4, 2)), np.ones((4, 3))])[1:2]
    array([[0., 0., 1., 1., 1.]], dtype=float32)
    """

    def __init__(self, sources: Sequence[FeatureSource]) -> None:
        rows = [source.shape[0] for source in sources]
        if len(set(rows)) > 1:
            raise ValueError(
                f"The feature spaces have {' and '.join(f'{n:,}' for n in rows)} rows; "
                "each must have one row per image, in the same order."
            )
        self.sources = list(sources)
        self.spaces = tuple(int(source.shape[1]) for source in sources)
        self.shape = (rows[0], sum(self.spaces))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any, /) -> npt.NDArray[np.float32]:
        return np.concatenate([read_rows(source, rows) for source in self.sources], axis=1)


class Subset:
    """Source of some rows of another source; rows are copied only when read."""

    def __init__(self, source: FeatureSource, rows: npt.NDArray[np.int64]) -> None:
        self.source, self.rows, self.spaces = source, rows, space_widths(source)
        self.shape = (len(rows), *source.shape[1:])

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: Any, /) -> Any:
        return self.source[self.rows[rows]]


def row_blocks(n: int, size: int = BLOCK_ROWS) -> Iterator[slice]:
    """Yield consecutive blocks of at most ``size`` of n rows.

    >>> list(row_blocks(5, 3))
    [slice(0, 3, None), slice(3, 5, None)]
    """
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def check_finite(source: FeatureSource, block: int = BLOCK_ROWS) -> str:
    """Return a digest of the rows; raise ``ValueError`` if they contain NaN or infinity.

    ``block`` rows are read at a time.
    """
    invalid: list[int] = []
    digest = xxhash.xxh3_128()
    for rows in row_blocks(source.shape[0], block):
        values = read_rows(source, rows)
        digest.update(values.data)
        if not np.isfinite(values.sum(dtype=np.float64)):  # the sum is a fast first check
            invalid.extend(rows.start + np.flatnonzero(~np.isfinite(values).all(axis=1)))
    if invalid:
        shown = ", ".join(map(str, invalid[:10])) + (", ..." if len(invalid) > 10 else "")
        raise ValueError(
            f"{len(invalid)} of {source.shape[0]} rows of the features contain NaN or infinity (rows {shown}); "
            "remove or repair them."
        )
    return digest.hexdigest()


def load_feature_file(path: str | os.PathLike[str], *, labels: str = "labels") -> FeatureFile:
    """Read a feature file or open a feature store; .npy files and stores stay on disk, memory-mapped.

    Parameters
    ----------
    path : str or path-like
        One of:

        - .npy: the features;
        - .npz: ``features``, optionally ``labels``, ``split``, ``classes``, ``fingerprint``;
        - .pt, .pth: a tensor, or a dict with ``features`` and optionally ``ys``;
        - .parquet: a column ``features`` of lists, optionally ``labels``, ``split``, ``id``;
        - the folder of a ``FeatureStore``; the store of a data set includes labels and split;
        - several of these joined by ``" + "``: the features of the same rows in several spaces, side by side.
    labels : str
        Name of the array to use as labels.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "x.npz"
    >>> np.savez(path, features=np.ones((4, 2)), labels=[0, 0, 1, 1])
    >>> file = load_feature_file(path)
    >>> file.features.shape, file.labels.tolist()
    ((4, 2), [0, 0, 1, 1])
    """
    parts = split_paths(path)
    if len(parts) > 1:
        return _side_by_side(parts, labels)
    path = Path(path)
    if path.is_dir():
        return _from_store(path, labels)
    if not path.exists():
        raise FileNotFoundError(f"There is no file or folder {path}.")
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(
            f"{path} is not a feature file: its name must end in {', '.join(SUFFIXES)}, or it must be a feature store."
        )
    try:
        file = _READERS[suffix](path, labels)
    except ImportError:
        raise
    except Exception as error:  # damaged files raise nearly any type
        if str(error).startswith(str(path)):  # raised by the reader itself
            raise
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise DamagedFileError(
            f"{path} could not be read as {suffix} features ({reason}); create the file again."
        ) from error
    _check_shapes(path, file)
    return file


def split_paths(path: str | os.PathLike[str]) -> list[str]:
    """The feature files or stores that are joined by ``" + "`` in ``path``.

    >>> split_paths("clip.npz + dinov2.npz"), split_paths("clip.npz")
    (['clip.npz', 'dinov2.npz'], ['clip.npz'])
    """
    text = os.fspath(path)
    return [text] if SEPARATOR not in text or Path(text).exists() else text.split(SEPARATOR)


def absolute_paths(path: str | os.PathLike[str]) -> str:
    """``path`` with every feature file in it as an absolute path."""
    return SEPARATOR.join(str(Path(part).resolve()) for part in split_paths(path))


def _side_by_side(paths: Sequence[str], labels: str) -> FeatureFile:
    """The features of the same rows in several files; ids, labels and split must agree where files have them."""
    files = [load_feature_file(path, labels=labels) for path in paths]
    merged: dict[str, Any] = {}
    for name in ("ids", "labels", "split", "classes"):
        values = {path: getattr(file, name) for path, file in zip(paths, files, strict=True)}
        present = {path: value for path, value in values.items() if value is not None}
        first = next(iter(present), None)
        for path, value in present.items():
            if first is not None and not np.array_equal(value, present[first]):
                what = "images" if name == "ids" else name
                raise ValueError(
                    f"{path} and {first} have different {what}; they must hold the same images in the same order."
                )
        merged[name] = None if first is None else present[first]
    fingerprints = [file.fingerprint for file in files if file.fingerprint]
    merged["fingerprint"] = SEPARATOR.join(fingerprints) if len(fingerprints) == len(files) else None
    return FeatureFile(SideBySide([file.features for file in files]), **merged)


def is_features(path: str | os.PathLike[str]) -> bool:
    """Return whether ``path`` is a feature file or store rather than images."""
    parts = split_paths(path)
    if len(parts) > 1:
        return all(map(is_features, parts))
    if is_url(path):
        return False
    path = Path(path)
    if path.is_dir():
        return (path / "manifest.json").is_file()
    if path.suffix.lower() == ".npz":
        with contextlib.suppress(zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
            return "images" not in npz_names(path)
    if path.suffix.lower() == ".parquet":
        return not has_image_column(str(path))
    return path.suffix.lower() in SUFFIXES


def _from_npy(path: Path, labels: str) -> FeatureFile:
    return FeatureFile(map_npy(path))


def _from_npz(path: Path, labels: str) -> FeatureFile:
    names = npz_names(path)
    if "features" not in names:
        raise ValueError(f"{path} contains {', '.join(names) or 'nothing'}, but needs an array named 'features'.")
    fields = {name: name for name in ("features", "split", "classes", "fingerprint")} | {"labels": labels}
    arrays = read_npz(path, sorted({name for name in fields.values() if name in names}))
    values: dict[str, Any] = {field: arrays[name] for field, name in fields.items() if name in arrays}
    if "classes" in values:
        values["classes"] = [str(name) for name in values["classes"]]
    if "fingerprint" in values:
        values["fingerprint"] = str(values["fingerprint"])
    return FeatureFile(**values)


def _from_torch(path: Path, labels: str) -> FeatureFile:
    import pickle

    import torch

    _check_torch_members(path)
    try:
        values = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError) as error:
        raise ValueError(
            f"{path} contains other objects than tensors, or is damaged, and was not loaded; save it as .npz."
        ) from error
    if torch.is_tensor(values):
        values = {"features": values}
    if not isinstance(values, dict) or not torch.is_tensor(values.get("features")):
        raise ValueError(f"{path} must contain a tensor, or a dict with a tensor 'features' and optionally 'ys'.")
    ys = values.get("ys" if labels == "labels" else labels)
    ys = _to_numpy(ys) if torch.is_tensor(ys) else ys
    return FeatureFile(_to_numpy(values["features"]), labels=None if ys is None else np.asarray(ys))


def _check_torch_members(path: Path) -> None:
    """Raise ``ValueError`` for compressed members, which torch.save never writes and which can be bombs."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if any(info.compress_type != zipfile.ZIP_STORED for info in archive.infolist()):
                raise ValueError("it has compressed members, which torch.save does not write")


def _from_parquet(path: Path, labels: str) -> FeatureFile:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(f"Reading {path} needs pyarrow; install it with: pip install 'cgmcr2[table]'") from error
    with pyarrow.parquet.ParquetFile(path) as file:
        names = file.schema_arrow.names
        if "features" not in names:
            raise ValueError(f"{path} has columns {', '.join(names)}, but needs a column 'features' of lists.")
        size = sum(file.metadata.row_group(group).total_byte_size for group in range(file.metadata.num_row_groups))
        check_ratio("the table", size, path.stat().st_size)
        table = file.read([name for name in ("features", labels, "split", "id", "path") if name in names])
    features = np.stack(table["features"].to_numpy(zero_copy_only=False)).astype(np.float32)
    fields = {"labels": labels, "split": "split"}
    columns = {field: table[name].to_numpy() for field, name in fields.items() if name in names}
    id_name = next((name for name in ("id", "path") if name in names), None)
    return FeatureFile(
        features, **columns, ids=[str(value) for value in table[id_name].to_pylist()] if id_name else None
    )


_READERS = {
    ".npy": _from_npy,
    ".npz": _from_npz,
    ".pt": _from_torch,
    ".pth": _from_torch,
    ".parquet": _from_parquet,
}


def _from_store(path: Path, labels: str) -> FeatureFile:
    from cgmcr2.features.annotations import read_annotations
    from cgmcr2.features.store import FeatureStore

    store = FeatureStore.open(path)
    annotations = read_annotations(store)
    return FeatureFile(
        store,
        labels=annotations.get(labels),
        split=annotations.get("split"),
        classes=[str(name) for name in annotations["classes"]] if "classes" in annotations else None,
        ids=list(store.ids),
        fingerprint=store.fingerprint,
    )


def _to_numpy(tensor: Any) -> npt.NDArray[Any]:
    import torch

    if tensor.layout != torch.strided or tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise ValueError("a tensor is sparse, or larger than its data")
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()  # type: ignore[no-any-return]


def _check_shapes(path: Path, file: FeatureFile) -> None:
    shape = tuple(file.features.shape)
    dtype = np.dtype(getattr(file.features, "dtype", np.float32))
    if len(shape) != 2 or dtype.kind not in "fiu":
        raise ValueError(
            f"The features in {path} have shape {shape} and type {dtype}, but must be real numbers "
            "of shape (n_samples, n_features)."
        )
    for name in ("labels", "split"):
        value = getattr(file, name)
        if value is not None and (value.ndim != 1 or len(value) != shape[0]):
            count = len(value) if value.ndim == 1 else f"an array of shape {value.shape} as"
            raise ValueError(f"{path} has {shape[0]} rows of features but {count} {name}; the numbers must be equal.")

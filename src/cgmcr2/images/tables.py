"""Images in the rows of Parquet files, and of Hugging Face data sets that ``save_to_disk`` wrote (Arrow files).

The image column holds the bytes of image files, or structs of ``bytes`` and ``path`` as the library ``datasets`` writes
them. The id of an image is its row number in the file.
"""

from __future__ import annotations

import contextlib
import io
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import IO, Any

from cgmcr2.images.folder import IMAGE_SUFFIXES, Listing
from cgmcr2.images.limits import MAX_MEMBER_BYTES, check_file_size, check_ratio
from cgmcr2.images.sources import ArchiveSource
from cgmcr2.images.storage import FileInfo, StorageError, file_info, is_url, open_file, redact

_COLUMNS = ("image", "img", "bytes", "content", *(suffix[1:] for suffix in IMAGE_SUFFIXES))
_BATCH_ROWS = 32  # decoded at a time; pyarrow also holds the pages they are in
_READ_AHEAD = 2**20  # bytes of a Parquet column that are requested at a time


def list_parquet(file: FileInfo) -> tuple[Listing, ParquetSource]:
    """List the rows of a Parquet file; the size of an image is the mean of its row group."""
    listing, starts = Listing(), array("q")
    with _readable(file, "a Parquet file"):
        table = _open_parquet(file)
        try:
            column = _image_column(table.schema_arrow, file)
            metadata = table.metadata
            leaf = [metadata.schema.column(i).path for i in range(metadata.num_columns)].index(column)
            for group in range(metadata.num_row_groups):
                chunk, rows = metadata.row_group(group).column(leaf), metadata.row_group(group).num_rows
                check_ratio(f"row group {group}", chunk.total_uncompressed_size, chunk.total_compressed_size)
                starts.append(len(listing.ids))
                for row in range(len(listing.ids), len(listing.ids) + rows):
                    listing.add(str(row), chunk.total_uncompressed_size // rows, file.stamp)
        finally:
            table.close()
    return listing, ParquetSource(file, column, starts)


def list_arrow(file: FileInfo) -> tuple[Listing, ArrowSource]:
    """List the rows of an Arrow file of a Hugging Face data set."""
    if is_url(file.path):  # its rows could only be counted by downloading it
        raise StorageError(
            f"{redact(file.path)} is an Arrow file, which is read from a local disk only: copy the data set there, or "
            "save it as Parquet."
        )
    listing = Listing()
    with _readable(file, "an Arrow file"):
        table = _ArrowTable(file)
        source = ArrowSource(file, table.column_name)
        sizes = (
            size for chunk in table.images.chunks for size in _arrow(file).compute.binary_length(chunk).to_pylist()
        )
        for row, size in enumerate(sizes):
            listing.add(str(row), size or 0, file.stamp)
        table.close()
    return listing, source


class ParquetSource(ArchiveSource):
    """Rows of a Parquet file, read in order; ``starts`` holds the first row of each row group."""

    sequential = True

    def __init__(self, file: FileInfo, column: str, starts: array[int]) -> None:
        super().__init__(file)
        self.column, self.starts = column, starts

    def load(self, index: int, id: str) -> IO[bytes]:
        with self._lock:
            self._check_version()
            group = bisect_right(self.starts, index) - 1
            reader: _RowGroup | None = self._handle
            if reader is None or reader.group != group or reader.start > index:
                if reader is not None:
                    reader.close()
                self._handle = reader = _RowGroup(self.file, self.column, group, self.starts[group])
            return _image(reader.value(index))


class _RowGroup:
    """Values of a row group, in batches from the first to the last row; a whole group may exceed the memory."""

    def __init__(self, file: FileInfo, column: str, group: int, start: int) -> None:
        self.group, self.start = group, start
        self.table = _open_parquet(file)
        self.batches: Iterator[Any] = self.table.iter_batches(_BATCH_ROWS, row_groups=[group], columns=[column])
        self.batch: Any = ()
        self.damage = ""

    def value(self, index: int) -> Any:
        while index >= self.start + len(self.batch):
            if self.damage:  # the rows after a damaged page cannot be found
                raise ValueError(self.damage)
            try:
                following = next(self.batches)
            except Exception as error:
                self.damage = f"damaged at row {self.start + len(self.batch)}: {redact(str(error))}"
                raise ValueError(self.damage) from error
            self.start += len(self.batch)
            self.batch = following
        return self.batch.column(0)[index - self.start].as_py()

    def close(self) -> None:
        self.table.close()


class ArrowSource(ArchiveSource):
    """Rows of a memory-mapped Arrow file, in any order."""

    def __init__(self, file: FileInfo, column: str) -> None:
        super().__init__(file)
        self.column = column

    def load(self, index: int, id: str) -> IO[bytes]:
        with self._lock:
            self._check_version()
            if self._handle is None:
                self._handle = _ArrowTable(self.file)
            return _image(self._handle.images[index].as_py())


class _ArrowTable:
    """Memory-mapped Arrow file and its image column."""

    def __init__(self, file: FileInfo) -> None:
        arrow = _arrow(file)
        self.map = arrow.memory_map(file.path)
        table = arrow.ipc.open_stream(self.map).read_all()
        self.column_name = _image_column(table.schema, file)
        name, _, child = self.column_name.partition(".")
        self.images = arrow.compute.struct_field(table[name], child) if child else table[name]

    def close(self) -> None:
        del self.images
        self.map.close()


def has_image_column(path: str) -> bool:
    """Return whether a Parquet file holds images; one of features does not."""
    with contextlib.suppress(ValueError, OSError, ImportError):
        file = file_info(path)
        with contextlib.closing(_open_parquet(file)) as table:
            return "features" not in table.schema_arrow.names and bool(_image_column(table.schema_arrow, file))
    return False


def _image_column(schema: Any, file: FileInfo) -> str:
    """Return the path of the column with the bytes of the images, such as "jpg" or "image.bytes"."""
    types = _arrow(file).types
    columns: dict[str, str] = {}
    for field in schema:
        if types.is_struct(field.type) and {"bytes", "path"} <= {child.name for child in field.type}:
            columns[field.name] = f"{field.name}.bytes"
        elif types.is_binary(field.type) or types.is_large_binary(field.type):
            columns[field.name] = field.name
    name = next((name for name in _COLUMNS if name in columns), next(iter(columns), None))
    if name is None:
        raise StorageError(
            f"{redact(file.path)} has the columns {', '.join(schema.names)}, but none with the bytes of images "
            "(binary, or a struct of bytes and path)."
        )
    return columns[name]


def _image(value: Any) -> IO[bytes]:
    data = value.get("bytes") if isinstance(value, dict) else value
    if data is None:
        raise ValueError("the row has no image bytes; a path alone is not followed")
    check_file_size(len(data), MAX_MEMBER_BYTES)
    return io.BytesIO(data)


@contextlib.contextmanager
def _readable(file: FileInfo, kind: str) -> Iterator[None]:
    try:
        yield
    except (ImportError, StorageError):
        raise
    except Exception as error:  # pyarrow raises many types for damaged files
        reason = redact(" ".join(str(error).split()))[:200]
        raise ValueError(f"{redact(file.path)!r} cannot be read as {kind} ({reason}).") from error


def _open_parquet(file: FileInfo) -> Any:
    arrow = _arrow(file)
    return arrow.parquet.ParquetFile(open_file(file, read_ahead=_READ_AHEAD), buffer_size=_READ_AHEAD, pre_buffer=False)


def _arrow(file: FileInfo) -> Any:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError:
        raise ImportError(f"Reading {redact(file.path)} needs pyarrow: pip install 'cgmcr2[cloud]'") from None
    return pyarrow

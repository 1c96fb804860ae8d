"""Write a clustering as a table: CSV, JSON, Parquet, Arrow or Lance."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cgmcr2._files import replacing, write_text
from cgmcr2.features.sources import FeatureSource, read_rows

from .clustering import Clustering
from .filenames import escaped
from .io import column_names, write_csv

BLOCK_ROWS = 16_384  # rows in memory at a time: 48 MB for 768 features


def write_text_table(clustering: Clustering, out: Path, to: str) -> None:
    """Write the columns of ``labels.csv`` as "csv" or "json"."""
    if to == "csv":
        with replacing(out) as temporary:
            write_csv(temporary, clustering.records(), column_names(clustering))
        return
    sizes = clustering.sizes()
    clusters = [{"cluster": c, "name": clustering.names[c], "size": int(sizes[c])} for c in clustering.clusters]
    images = [dict(zip(column_names(clustering), record, strict=True)) for record in clustering.records()]
    write_text(out, json.dumps({"clusters": clusters, "images": images}, indent=1) + "\n")


def write_arrow_table(
    clustering: Clustering,
    out: Path,
    to: str,
    features: FeatureSource | None = None,
    *,
    block_rows: int = BLOCK_ROWS,
) -> None:
    """Write the columns of ``labels.csv`` and the vectors to a "parquet" or "arrow" file, or a "lance" folder.

    The embedding (n, d), if there is one, and the ``features`` (n, D), if given, are columns of fixed-size lists.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError(f"Export to {to} needs pyarrow; install it with: pip install 'cgmcr2[table]'") from error
    vectors = {"embedding": clustering.embedding, "features": features}
    sources = {name: source for name, source in vectors.items() if source is not None}
    schema = _schema(clustering, sources)
    batches = _batches(clustering, sources, schema, block_rows)
    if to == "lance":
        try:
            import lance
        except ImportError as error:
            raise ImportError("Export to lance needs pylance; install it with: pip install 'cgmcr2[lance]'") from error
        lance.write_dataset(pa.RecordBatchReader.from_batches(schema, batches), str(out))
        return
    with replacing(out) as temporary:
        writer = pq.ParquetWriter(temporary, schema) if to == "parquet" else pa.ipc.new_file(str(temporary), schema)
        with writer:
            for batch in batches:
                writer.write_batch(batch)


def _schema(clustering: Clustering, vectors: Mapping[str, FeatureSource]) -> Any:
    import pyarrow as pa

    types = (pa.string(), pa.int32(), pa.string(), pa.float32(), pa.float32(), pa.float32(), pa.string())
    fields = list(zip(column_names(clustering), types, strict=False))  # duplicate_of is optional
    return pa.schema(fields + [(name, pa.list_(pa.float32(), source.shape[1])) for name, source in vectors.items()])


def _batches(
    clustering: Clustering, vectors: Mapping[str, FeatureSource], schema: Any, block_rows: int
) -> Iterator[Any]:
    """Yield record batches of ``block_rows`` rows."""
    import pyarrow as pa

    c = clustering
    duplicate_of = None if c.groups is None else c.duplicate_of()
    for start in range(0, len(c), block_rows):
        rows = slice(start, start + block_rows)
        names = [c.names[label] for label in c.labels[rows].tolist()]
        columns: list[Any] = [[escaped(id) for id in c.ids[rows]], c.labels[rows], names]
        columns += [c.confidence[rows], c.margin[rows], c.outlier[rows]]
        if duplicate_of is not None:
            columns.append([escaped(id) for id in duplicate_of[rows]])
        arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=False)]
        for source in vectors.values():
            block = read_rows(source, rows)
            arrays.append(pa.FixedSizeListArray.from_arrays(pa.array(block.ravel()), block.shape[1]))
        yield pa.record_batch(arrays, schema=schema)

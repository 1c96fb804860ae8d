"""Data sets in many files: WebDataset tars, Parquet files, Hugging Face data sets on disk."""

from __future__ import annotations

import io
import json
import pickle
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import fsspec
import pytest

from cgmcr2.features.sources import is_features
from cgmcr2.images import Catalog, decode, iter_decoded
from cgmcr2.images.shards import expand_braces, shard_names

Png = Callable[..., bytes]
Red = Callable[[Catalog], list[int]]


def write_tar(path: Path, members: dict[str, bytes], mode: Any = "w") -> None:
    with tarfile.open(path, mode) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def sample(key: str, image: bytes) -> dict[str, bytes]:
    return {f"{key}.cls": b"3", f"{key}.jpg": image, f"{key}.json": b"{}", f"{key}.mask.png": image}


def red_values(catalog: Catalog) -> list[Any]:
    return [value for _, value in iter_decoded(catalog, lambda image: image.getpixel((0, 0))[0])]  # type: ignore[index]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("a.tar", ["a.tar"]),
        ("{8..11}.tar", ["8.tar", "9.tar", "10.tar", "11.tar"]),
        ("{008..010}.tar", ["008.tar", "009.tar", "010.tar"]),
        ("{a,b}/{0..1}", ["a/0", "a/1", "b/0", "b/1"]),
        ("{a}", ["{a}"]),
    ],
)
def test_expand_braces(pattern: str, names: list[str]) -> None:
    assert expand_braces(pattern) == names


@pytest.mark.parametrize(
    ("files", "shards"),
    [
        (["0.tar", "0.parquet", "0_stats.json", "1.tar"], ["0.tar", "1.tar"]),
        (["data/train-0.parquet", "README.md"], ["data/train-0.parquet"]),
        (["cache-1a2b.arrow", "data-0.arrow", "state.json"], ["data-0.arrow"]),
        (["backup.tar", "photo.jpg"], []),
        (["backup.tar", "no-suffix"], []),
        (["notes.txt"], []),
    ],
    ids=["img2dataset", "hub", "save_to_disk", "photos", "other", "metadata"],
)
def test_shards_of_a_folder(files: list[str], shards: list[str]) -> None:
    assert shard_names(files) == shards


def test_folder_and_pattern_of_tars(tmp_path: Path, png: Png, red: Red) -> None:
    for shard in range(3):
        samples = [sample(f"x/{number}", png(10 * shard + number)) for number in range(4)]
        write_tar(tmp_path / f"{shard:02}.tar", {name: data for files in samples for name, data in files.items()})
        (tmp_path / f"{shard:02}_stats.json").write_text("{}")
    catalog = Catalog.from_source(tmp_path)
    assert catalog.ids == [f"{shard:02}/x/{number}.jpg" for shard in range(3) for number in range(4)]
    assert red(pickle.loads(pickle.dumps(catalog))) == [0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23]
    assert decode(catalog[9]).getpixel((0, 0)) == (21, 0, 0)
    some = Catalog.from_source(str(tmp_path / "{01..02}.tar"))
    assert some.ids == catalog.ids[4:]
    assert not some.errors
    # A single tar may be an archive of photos: all its images count, but not their metadata.
    assert Catalog.from_source(tmp_path / "00.tar").ids[:2] == ["x/0.jpg", "x/0.mask.png"]


def test_compressed_tars(tmp_path: Path, png: Png) -> None:
    for shard in range(2):
        members = {f"{number}.png": png(10 * shard + number) for number in range(3)}
        write_tar(tmp_path / f"{shard}.tar.gz", members, "w:gz")
    catalog = Catalog.from_source(tmp_path)
    assert catalog.ids[3:] == ["1/0.png", "1/1.png", "1/2.png"]
    assert red_values(catalog) == [0, 1, 2, 10, 11, 12]


def test_damaged_shards_and_samples_without_image_are_errors(tmp_path: Path, png: Png) -> None:
    write_tar(tmp_path / "0.tar", {"a.png": png(1), "b.json": b"{}", "c.png": b"no image"})
    (tmp_path / "1.tar").write_bytes(b"no tar" * 500)
    catalog = Catalog.from_source(tmp_path)
    assert red_values(catalog) == [1, "not an image, or an unsupported image format"]
    assert [id for id, _ in catalog.errors] == ["0/b", "1.tar"]
    assert catalog.errors[0][1] == "the sample has no image"
    assert "cannot be read as a tar archive" in catalog.errors[1][1]


def test_missing_shard_of_a_pattern(tmp_path: Path, png: Png) -> None:
    write_tar(tmp_path / "0.tar", {"a.png": png(1)})
    with pytest.raises(FileNotFoundError, match=r"1\.tar"):
        Catalog.from_source(str(tmp_path / "{0..1}.tar"))


def test_arrow_file_at_a_url_is_refused() -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe("/disk/data-00000-of-00001.arrow", b"x")
    try:
        with pytest.raises(ValueError, match="read from a local disk only"):
            Catalog.from_source("memory://disk")
    finally:
        memory.store.clear()


def test_tars_at_a_url(tmp_path: Path, png: Png) -> None:
    memory = fsspec.filesystem("memory")
    for shard in range(2):
        write_tar(tmp_path / "shard", {f"{number}.png": png(10 * shard + number) for number in range(20)})
        memory.pipe(f"/wds/{shard}.tar", (tmp_path / "shard").read_bytes())
    try:
        expected = [*range(20), *range(10, 30)]
        for url in ("memory://wds", "memory://wds/{0..1}.tar"):
            catalog = Catalog.from_source(url)
            assert catalog.ids[20] == "1/0.png"
            assert red_values(catalog) == expected
    finally:
        memory.store.clear()


def write_parquet(path: Path, columns: dict[str, Sequence[Any]], row_group_size: int = 4) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table(columns), path, row_group_size=row_group_size)


def test_parquet_with_structs_as_hugging_face_writes_it(tmp_path: Path, png: Png, red: Red) -> None:
    (tmp_path / "data").mkdir()
    for shard in range(2):
        images = [{"bytes": png(10 * shard + number), "path": f"{number}.png"} for number in range(10)]
        write_parquet(tmp_path / "data" / f"train-{shard}.parquet", {"label": list(range(10)), "image": images})
    (tmp_path / "README.md").write_text("# Data set")
    catalog = Catalog.from_source(tmp_path)
    assert catalog.ids[9:11] == ["data/train-0/9", "data/train-1/0"]
    assert red_values(pickle.loads(pickle.dumps(catalog))) == [*range(10), *range(10, 20)]
    # In any order, across row groups and files.
    assert [decode(catalog[index]).getpixel((0, 0))[0] for index in (19, 3, 2, 8, 12, 0)] == [19, 3, 2, 8, 12, 0]  # type: ignore[index]


def test_parquet_with_bytes_as_img2dataset_writes_it(tmp_path: Path, png: Png, red: Red) -> None:
    path = tmp_path / "00000.parquet"
    write_parquet(path, {"hash": [b"x", b"y", b"z"], "key": ["0", "1", "2"], "jpg": [png(5), None, b"no image"]})
    catalog = Catalog.from_source(path)
    assert catalog.ids == ["00000/0", "00000/1", "00000/2"]
    reasons = [
        "the row has no image bytes; a path alone is not followed",
        "not an image, or an unsupported image format",
    ]
    assert red_values(catalog) == [5, *reasons]
    assert not is_features(path)


def test_ids_of_shards_with_dots_in_their_names(tmp_path: Path, png: Png) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for number in range(2):  # as Dask names them
        pq.write_table(pa.table({"image": [png(number)]}), tmp_path / f"part.{number}.parquet")
    assert Catalog.from_source(tmp_path).ids == ["part.0/0", "part.1/0"]


def test_parquet_without_images(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_parquet(path, {"features": [[1.0, 2.0]], "label": [1]})
    assert is_features(path)
    with pytest.raises(ValueError, match="has the columns features, label, but none with the bytes of images"):
        Catalog.from_source(path)
    path.write_bytes(b"PAR1 no parquet")
    with pytest.raises(ValueError, match=r"No image was found .*cannot be read as a Parquet file"):
        Catalog.from_source(path)


def test_rows_before_a_damaged_page_are_read(tmp_path: Path, png: Png) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    write_parquet(path, {"image": [png(number, (64, 64)) for number in range(80)]}, row_group_size=40)
    chunk = parquet.ParquetFile(path).metadata.row_group(1).column(0)
    data = bytearray(path.read_bytes())
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    data[start : start + 40] = b"\xff" * 40
    path.write_bytes(data)
    values = red_values(Catalog.from_source(path))
    assert values[:40] == list(range(40))
    assert all("damaged at row 40" in value for value in values[40:])


def test_data_set_that_save_to_disk_wrote(tmp_path: Path, png: Png, red: Red) -> None:
    arrow = pytest.importorskip("pyarrow")
    kind = arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())])
    for shard in range(2):
        table = arrow.table({"image": arrow.array([{"bytes": png(10 * shard + i)} for i in range(5)], kind)})
        folder = tmp_path / "train"
        folder.mkdir(exist_ok=True)
        with arrow.ipc.new_stream(str(folder / f"data-{shard:05}-of-00002.arrow"), table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
    (tmp_path / "dataset_dict.json").write_text(json.dumps({"splits": ["train"]}))
    (tmp_path / "train" / "state.json").write_text("{}")
    catalog = Catalog.from_source(tmp_path)
    assert catalog.ids[4:6] == ["train/data-00000-of-00002/4", "train/data-00001-of-00002/0"]
    assert catalog.sizes.tolist() == [len(png(red)) for red in (*range(5), *range(10, 15))]
    assert red(pickle.loads(pickle.dumps(catalog))) == [*range(5), *range(10, 15)]
    assert decode(catalog[7]).getpixel((0, 0)) == (12, 0, 0)

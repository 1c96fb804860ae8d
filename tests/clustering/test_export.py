"""Exports never overwrite, never change the originals, and stay inside their folder, whatever the names."""

from __future__ import annotations

import csv
import json
import os
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock
from PIL import Image

from cgmcr2.clustering import COLUMNS, Clustering
from cgmcr2.clustering.export import Kind, export
from cgmcr2.clustering.tables import write_arrow_table
from cgmcr2.features.sources import load_feature_file
from cgmcr2.images import Catalog

from ..fault_injection import killed_at

FILES = ["a.png", "sub/a.png", "sub/deeper/A.png", "b.png", 'odd "name"\n<script>.png', "caf\udce9.png"]


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    for number, name in enumerate(FILES):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4), (40 * number, 0, 0)).save(path)
    return folder


@pytest.fixture
def clustering() -> Clustering:
    labels = [0, 0, 0, 2, 2, 2]
    return Clustering(FILES, labels, names=["cats / dogs", "nobody", "..", "CON"], confidence=np.full(6, 0.9))


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_folders_hold_copies_under_safe_names(photos: Path, clustering: Clustering, tmp_path: Path) -> None:
    before = tree(photos)
    result = export(clustering, tmp_path / "out", images=Catalog.from_source(photos))
    assert (result.written, result.missing) == (6, [])
    exported = tree(tmp_path / "out")
    assert set(exported) == {
        "cats - dogs/a.png",
        "cats - dogs/a (2).png",
        "cats - dogs/A (3).png",
        "Cluster 2/b.png",
        'Cluster 2/odd "name"\n<script>.png',
        "Cluster 2/caf\udce9.png",
    }
    assert sorted(exported.values()) == sorted(before.values())
    assert tree(photos) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "photos"]  # no temporary files


@pytest.mark.parametrize("kind", ["folders", "imagefolder", "csv", "json", "parquet", "lance", "coco", "label-studio"])
def test_existing_files_are_never_overwritten(kind: str, photos: Path, clustering: Clustering, tmp_path: Path) -> None:
    for name, make in (("file", Path.touch), ("folder", Path.mkdir), ("link", lambda p: p.symlink_to("nowhere"))):
        make(tmp_path / name)
        with pytest.raises(FileExistsError, match="never overwrites"):
            export(clustering, tmp_path / name, kind, images=Catalog.from_source(photos))  # type: ignore[arg-type]
    assert (tmp_path / "file").read_bytes() == b""
    assert os.readlink(tmp_path / "link") == "nowhere"


def test_links(photos: Path, clustering: Clustering, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = Catalog.from_source(photos)
    export(clustering, tmp_path / "hard", images=catalog, link="hardlink")
    assert (tmp_path / "hard/cats - dogs/a.png").samefile(photos / "a.png")
    assert not (tmp_path / "hard/cats - dogs/a.png").is_symlink()
    monkeypatch.chdir(tmp_path)  # relative source, export in another folder
    export(clustering, tmp_path / "deep/soft", images=Catalog.from_source("photos"), link="symlink")
    link = tmp_path / "deep/soft/Cluster 2/caf\udce9.png"
    assert link.is_symlink()
    assert link.read_bytes() == (photos / "caf\udce9.png").read_bytes()


def test_failed_hard_link_leaves_no_files(
    photos: Path, clustering: Clustering, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(OSError, match="use copy or symlink"):
        export(clustering, tmp_path / "out", images=Catalog.from_source(photos), link="hardlink")
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]


def test_missing_images_are_listed_and_the_others_exported(
    photos: Path, clustering: Clustering, tmp_path: Path
) -> None:
    catalog = Catalog.from_source(photos)
    (photos / "b.png").unlink()
    result = export(clustering, tmp_path / "out", "imagefolder", images=catalog, link="symlink")
    assert result.written == 5
    assert result.missing == [("b.png", "No such file or directory")]
    later = export(clustering, tmp_path / "later", images=Catalog.from_source(photos))
    assert later.missing == [("b.png", f"not found in {photos}")]
    assert not list((tmp_path / "out").rglob("b*.png"))


def test_imagefolder_sorts_by_number_and_has_metadata(photos: Path, clustering: Clustering, tmp_path: Path) -> None:
    export(clustering, tmp_path / "out", "imagefolder", images=Catalog.from_source(photos))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "00-cats-dogs",
        "02-cluster-2",
        "metadata.csv",
    ]
    with (tmp_path / "out/metadata.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["path"] for row in rows] == [name.replace("\udce9", r"\xe9") for name in FILES]
    assert {row["label"] for row in rows} == {"cats / dogs", ".."}
    for row, name in zip(rows, FILES, strict=True):
        assert (tmp_path / "out" / row["file_name"]).read_bytes() == (photos / name).read_bytes()


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
@pytest.mark.parametrize("link", ["copy", "symlink"])
def test_images_in_archives_are_always_copied(kind: str, link: str, photos: Path, tmp_path: Path) -> None:
    path = tmp_path / f"photos.{kind}"
    names = FILES[:4]
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                archive.write(photos / name, name)
    else:
        with tarfile.open(path, "w:gz") as tar:
            for name in names:
                tar.add(photos / name, name)
    c = Clustering(list(reversed(names)), [0, 1, 0, 1])
    result = export(c, tmp_path / "out", images=Catalog.from_source(path), link=link)  # type: ignore[arg-type]
    assert result.written == 4
    assert sorted(tree(tmp_path / "out").values()) == sorted((photos / name).read_bytes() for name in names)
    assert not any(path.is_symlink() for path in (tmp_path / "out").rglob("*"))


def test_images_of_an_npz_are_written_as_png(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (3, 5, 6, 3), dtype=np.uint8)
    np.savez(tmp_path / "digits.npz", images=pixels)
    c = Clustering(["0", "1", "2"], [0, 1, 0])
    export(c, tmp_path / "out", images=Catalog.from_source(tmp_path / "digits.npz"))
    with Image.open(tmp_path / "out/Cluster 1/1.png") as image:
        np.testing.assert_array_equal(np.asarray(image), pixels[1])


def test_csv_and_json_hold_all_columns(clustering: Clustering, tmp_path: Path) -> None:
    export(clustering, tmp_path / "t.csv", "csv")
    with (tmp_path / "t.csv").open(newline="", encoding="utf-8", errors="surrogateescape") as file:
        header, *rows = csv.reader(file)
    assert header == list(COLUMNS)
    assert [row[0] for row in rows] == FILES
    export(clustering, tmp_path / "t.json", "json")
    value = json.loads((tmp_path / "t.json").read_text())
    assert [image["path"] for image in value["images"]] == FILES
    assert value["images"][0] == {
        "path": "a.png",
        "cluster": 0,
        "name": "cats / dogs",
        "confidence": 0.9,
        "margin": 1.0,
        "outlier": 0.0,
    }
    assert value["clusters"] == [
        {"cluster": 0, "name": "cats / dogs", "size": 3},
        {"cluster": 2, "name": "..", "size": 3},
    ]


def read_table(path: Path, kind: str) -> Any:
    """The Arrow table that an export wrote."""
    if kind == "lance":
        return pytest.importorskip("lance").dataset(str(path)).to_table()
    if kind == "arrow":
        return pytest.importorskip("pyarrow").ipc.open_file(str(path)).read_all()
    return pytest.importorskip("pyarrow.parquet").read_table(path)


@pytest.mark.parametrize("kind", ["parquet", "arrow", "lance"])
def test_tables_hold_vectors(kind: Kind, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("lance" if kind == "lance" else "pyarrow")
    Z, X = np.eye(6, 3, dtype=np.float32), np.arange(12, dtype=np.float64).reshape(6, 2)
    c = Clustering(FILES, [0, 0, 0, 2, 2, 2], embedding=Z, names=["a", "b", "c"])
    result = export(c, tmp_path / "out", kind, features=X)
    assert (result.path, result.written) == (tmp_path / "out", 6)
    table = read_table(result.path, kind)
    assert table.column_names == [*COLUMNS, "embedding", "features"]
    assert table.schema.field("embedding").type == pa.list_(pa.float32(), 3)
    values = table.to_pydict()
    assert values["path"] == [*FILES[:5], "caf\\xe9.png"]
    assert values["cluster"] == [0, 0, 0, 2, 2, 2]
    assert values["name"] == ["a"] * 3 + ["c"] * 3
    np.testing.assert_array_equal(values["embedding"], Z)
    np.testing.assert_array_equal(values["features"], X)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]  # no temporary files


def test_rows_are_written_in_blocks(clustering: Clustering, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    X = np.arange(12, dtype=np.float32).reshape(6, 2)
    write_arrow_table(clustering, tmp_path / "t.parquet", "parquet", X, block_rows=4)
    file = parquet.ParquetFile(tmp_path / "t.parquet")
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [4, 2]
    np.testing.assert_array_equal(file.read().to_pydict()["features"], X)


@pytest.mark.parametrize("kind", ["parquet", "arrow", "lance"])
def test_tables_without_vectors(kind: Kind, clustering: Clustering, tmp_path: Path) -> None:
    pytest.importorskip("lance" if kind == "lance" else "pyarrow")
    export(clustering, tmp_path / "out", kind)
    assert read_table(tmp_path / "out", kind).column_names == list(COLUMNS)


def test_exported_features_can_be_clustered(clustering: Clustering, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    X = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    export(clustering, tmp_path / "t.parquet", "parquet", features=X)
    file = load_feature_file(tmp_path / "t.parquet")
    np.testing.assert_array_equal(file.features[:], X)
    assert file.ids is not None
    assert file.ids[:5] == FILES[:5]


@pytest.mark.parametrize("kind", ["csv", "json", "parquet", "imagefolder"])
def test_near_duplicates_are_exported(kind: Kind, tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        Image.new("RGB", (4, 4)).save(tmp_path / name)
    c = Clustering(["a.png", "b.png"], [0, 0], groups=[0, 0])
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    path = export(c, tmp_path / "out", kind, images=Catalog.from_source(tmp_path)).path
    if kind == "json":
        values = [image["duplicate_of"] for image in json.loads(path.read_text())["images"]]
    elif kind == "parquet":
        values = read_table(path, kind).to_pydict()["duplicate_of"]
    else:
        path = path / "metadata.csv" if kind == "imagefolder" else path
        with path.open(newline="", encoding="utf-8", errors="surrogateescape") as file:
            values = [row["duplicate_of"] for row in csv.DictReader(file)]
    assert values == ["", "a.png"]


def test_parquet_without_pyarrow(clustering: Clustering, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"cgmcr2\[table\]"):
        export(clustering, tmp_path / "t.parquet", "parquet")
    assert not list(tmp_path.iterdir())


def test_lance_without_pylance(clustering: Clustering, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lance", None)
    with pytest.raises(ImportError, match=r"cgmcr2\[lance\]"):
        export(clustering, tmp_path / "t.lance", "lance")
    assert not list(tmp_path.iterdir())


def test_invalid_arguments(clustering: Clustering, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs the images"):
        export(clustering, tmp_path / "out")
    with pytest.raises(ValueError, match=r"'xlsx'; choose from folders"):
        export(clustering, tmp_path / "out", "xlsx")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"'reflink'; choose from copy"):
        export(clustering, tmp_path / "out", link="reflink")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="cannot be exported to csv; choose from parquet, arrow, lance"):
        export(clustering, tmp_path / "out", "csv", features=np.eye(6))


def test_what_a_killed_export_left_is_deleted(
    photos: Path, clustering: Clustering, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = Catalog.from_source(photos)
    assert killed_at(4, monkeypatch, lambda: export(clustering, tmp_path / "out", images=catalog))
    assert any((tmp_path / ".out.part").rglob("*.png"))
    assert export(clustering, tmp_path / "out", images=catalog).written == 6
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "photos"]


def test_a_second_export_to_the_same_folder_is_refused(photos: Path, clustering: Clustering, tmp_path: Path) -> None:
    catalog = Catalog.from_source(photos)
    (tmp_path / ".out.part").mkdir()
    lock = FileLock(tmp_path / ".out.part" / "lock")
    with lock, pytest.raises(ValueError, match="Another process is exporting to"):
        export(clustering, tmp_path / "out", images=catalog)
    assert export(clustering, tmp_path / "out", images=catalog).written == 6

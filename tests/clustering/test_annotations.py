"""Annotations are read by the libraries of their formats, whatever the names of files and clusters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree

import pytest
from PIL import Image

from cgmcr2.clustering import Clustering
from cgmcr2.clustering.export import Kind, export
from cgmcr2.images import Catalog

from .conftest import FILES, LABELS, NAMES


def test_coco_is_read_by_pycocotools(photos: Path, clustering: Clustering, tmp_path: Path) -> None:
    coco = pytest.importorskip("pycocotools.coco").COCO
    result = export(clustering, tmp_path / "coco.json", "coco", images=Catalog.from_source(photos))
    assert (result.written, result.missing) == (6, [])
    dataset = coco(str(tmp_path / "coco.json"))
    names = {category["id"]: category["name"] for category in dataset.loadCats(dataset.getCatIds())}
    assert list(names.values()) == NAMES[:2]
    assert 0 not in names
    boxes = dataset.loadAnns(dataset.getAnnIds(areaRng=[0, 1e9], iscrowd=False))
    labels = {dataset.imgs[box["image_id"]]["file_name"]: names[box["category_id"]] for box in boxes}
    assert labels == {file: NAMES[label] for file, label in zip(FILES, LABELS, strict=False)}
    for image, box in zip(dataset.loadImgs(dataset.getImgIds()), boxes, strict=True):
        with Image.open(photos / image["file_name"]) as file:
            assert (image["width"], image["height"]) == file.size == tuple(box["bbox"][2:])
    assert dataset.getImgIds(catIds=[2]) == [3, 4, 6]


def test_unreadable_images_are_missing_in_coco(photos: Path, clustering: Clustering, tmp_path: Path) -> None:
    catalog = Catalog.from_source(photos)
    (photos / "a.png").write_bytes(b"damaged")
    (photos / "test-1.png").unlink()
    result = export(clustering, tmp_path / "coco.json", "coco", images=catalog)
    assert result.written == 4
    assert [id for id, _ in result.missing] == ["a.png", "test-1.png"]
    assert len(json.loads(result.path.read_text())["images"]) == 4


def read_fiftyone(path: Path, data: Path | None = None) -> dict[str, str]:
    """The samples that FiftyOne's FiftyOneImageClassificationDatasetImporter makes: label by path."""
    content = json.loads(path.read_text())
    files = [] if data is None else [file for file in data.rglob("*") if file.is_file()]
    paths = {os.path.splitext(file.relative_to(data))[0]: str(file) for file in files}  # type: ignore[arg-type]
    samples = {}
    for uuid, target in content["labels"].items():
        sample = uuid if os.path.isabs(uuid) else paths[uuid]
        samples[sample] = content["classes"][target["label"]]
    return samples


def test_fiftyone_finds_the_images(photos: Path, clustering: Clustering, tmp_path: Path) -> None:
    export(clustering, tmp_path / "labels.json", "fiftyone", images=Catalog.from_source(photos))
    expected = {str(photos / file): NAMES[label] for file, label in zip(FILES, LABELS, strict=False)}
    assert read_fiftyone(tmp_path / "labels.json") == expected
    assert json.loads((tmp_path / "labels.json").read_text())["classes"] == NAMES[:2]


def test_fiftyone_finds_the_extracted_images_of_an_archive(photos: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        for name in FILES[:2]:
            archive.write(photos / name, name)
    catalog = Catalog.from_source(tmp_path / "photos.zip")
    export(Clustering(FILES[:2], [0, 1]), tmp_path / "labels.json", "fiftyone", images=catalog)
    samples = read_fiftyone(tmp_path / "labels.json", photos)
    assert samples == {str(photos / "a.png"): "Cluster 0", str(photos / "sub/a.png"): "Cluster 1"}


def test_label_studio_tasks_fit_the_configuration(photos: Path, clustering: Clustering, tmp_path: Path) -> None:
    export(clustering, tmp_path / "out", "label-studio", images=Catalog.from_source(photos))
    view = ElementTree.parse(tmp_path / "out/config.xml").getroot()
    (image,), (choices,) = view.findall("Image"), view.findall("Choices")
    assert choices.get("toName") == image.get("name")
    assert [choice.get("value") for choice in choices.findall("Choice")] == NAMES[:2]
    tasks = json.loads((tmp_path / "out/tasks.json").read_text())
    for task, file, label in zip(tasks, FILES, LABELS, strict=False):
        url = urlsplit(task["data"][str(image.get("value")).removeprefix("$")])
        assert url.path == "/data/local-files/"
        assert parse_qs(url.query, errors="surrogateescape") == {"d": [file]}
        (prediction,) = task["annotations"] if file == "sub/a.png" else task["predictions"]
        assert ("predictions" in task) == (prediction.get("score") == 0.875)
        (choice,) = prediction["result"]
        assert choice["type"] == "choices"
        assert choice["from_name"] == choices.get("name")
        assert choice["to_name"] == image.get("name")
        assert choice["value"] == {"choices": [NAMES[label]]}
    assert len(tasks) == 6


def test_imagefolder_is_read_by_hugging_face_datasets(photos: Path, clustering: Clustering, tmp_path: Path) -> None:
    """A cluster and a file called test must not become a test split, which leaves out all other images."""
    pytest.importorskip("datasets")
    export(clustering, tmp_path / "out", "imagefolder", images=Catalog.from_source(photos))
    code = """
import sys, json, datasets
splits = datasets.load_dataset("imagefolder", data_dir=sys.argv[1], cache_dir=sys.argv[2])
rows = [{"path": row["path"], "label": row["label"], "size": row["image"].size} for row in splits["train"]]
print(json.dumps({"splits": list(splits), "rows": rows}))
"""
    words = [sys.executable, "-c", code, str(tmp_path / "out"), str(tmp_path / "cache")]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    output = subprocess.run(words, capture_output=True, text=True, check=True, env=environment).stdout
    loaded = json.loads(output.splitlines()[-1])
    assert loaded["splits"] == ["train"]
    escaped = [file.replace("\udce9", r"\xe9") for file in FILES[:6]]
    expected = {
        file: (NAMES[label], [4 + row, 5]) for row, (file, label) in enumerate(zip(escaped, LABELS, strict=True))
    }
    assert {row["path"]: (row["label"], row["size"]) for row in loaded["rows"]} == expected


@pytest.mark.parametrize("kind", ["coco", "fiftyone", "label-studio"])
def test_images_that_are_gone_are_missing(kind: Kind, photos: Path, clustering: Clustering, tmp_path: Path) -> None:
    (photos / "雪.png").unlink()
    result = export(clustering, tmp_path / "out", kind, images=Catalog.from_source(photos))
    assert result.written == 5
    assert result.missing == [("雪.png", f"not found in {photos}")]
    with pytest.raises(ValueError, match=f"Exporting to {kind} needs the images"):
        export(clustering, tmp_path / "other", kind)

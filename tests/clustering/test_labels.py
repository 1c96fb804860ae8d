"""Labels from the files of other tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cgmcr2.clustering.labels import Label, read_labels


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("path,cluster,name\na.jpg,3,dogs\n", [Label("a.jpg", "dogs", 3)]),
        ("path,cluster,name,confidence\na.jpg,3,dogs,0.9\n", [Label("a.jpg", "dogs", 3, False)]),
        ("file_name,label,path\n00-x/a.jpg,dogs,sub/a.jpg\n", [Label("sub/a.jpg", "dogs")]),
        ("\ufeffImage;Label\r\na b.jpg; dogs \r\n", [Label("a b.jpg", "dogs")]),
        ('filename\tclass\n"a\nb.jpg"\tdogs\n', [Label("a\nb.jpg", "dogs")]),
        ("image,id,cluster\n/data/upload/1/0123abcd-a.jpg,7,dogs\n", [Label("/data/upload/1/0123abcd-a.jpg", "dogs")]),
        ("a.jpg,dogs\nb.jpg,2\n\nc.jpg,\n", [Label("a.jpg", "dogs"), Label("b.jpg", number=2)]),
    ],
    ids=["numbers", "confidence", "metadata", "semicolons", "tabs", "label-studio", "no-header"],
)
def test_tables(text: str, expected: list[Label], tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text, newline="")
    assert read_labels(tmp_path / "t.csv") == expected


def test_file_names_that_are_not_unicode(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"path,label\ncaf\xe9.jpg,dogs\n")
    assert read_labels(tmp_path / "t.csv") == [Label("caf\udce9.jpg", "dogs")]


def choice(name: str) -> dict[str, Any]:
    return {"from_name": "c", "to_name": "i", "type": "choices", "value": {"choices": [name]}}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            {
                "images": [{"id": 7, "file_name": "a.jpg"}, {"id": 8, "file_name": "b.jpg"}],
                "annotations": [{"id": 1, "image_id": 7, "category_id": 2}],
                "categories": [{"id": 2, "name": "dogs"}],
            },
            [Label("a.jpg", "dogs")],
        ),
        (
            {"classes": ["cats", "dogs"], "labels": {"a": 1, "b": {"label": 0, "confidence": 0.5}, "c": None}},
            [Label("a", "dogs"), Label("b", "cats", by_person=False)],
        ),
        ({"classes": None, "labels": {"a": "dogs", "b": ["cats"]}}, [Label("a", "dogs"), Label("b", "cats")]),
        (
            [
                {"data": {"image": "a.jpg"}, "annotations": [{"result": [choice("dogs")]}], "predictions": []},
                {"data": {"photo": "b.jpg"}, "annotations": [{"result": [choice("x")], "was_cancelled": True}]},
                {"data": {"photo": "c.jpg", "n": 1}, "annotations": [{"result": [choice("cats")]}]},
                {"data": {"image": "d.jpg"}, "predictions": [{"result": [choice("dogs")]}]},
            ],
            [Label("a.jpg", "dogs", by_person=True), Label("c.jpg", "cats", by_person=True)],
        ),
        (
            [{"image": "a.jpg", "id": 1, "cluster": "dogs"}, {"image": "b.jpg", "label": {"choices": ["cats"]}}],
            [Label("a.jpg", "dogs", by_person=True), Label("b.jpg", "cats", by_person=True)],
        ),
    ],
    ids=["coco", "fiftyone", "fiftyone-names", "label-studio", "label-studio-min"],
)
def test_json(content: object, expected: list[Label], tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(json.dumps(content))
    assert read_labels(tmp_path / "t.json") == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,c\n1,2,3\n", "the table has the columns a, b, c; it needs one of path, image,"),
        ("{}", "the JSON is of none of the supported formats"),
        ("[1, 2]", "cannot be read .*; give a CSV table, or the JSON of COCO"),
        ("{", "cannot be read"),
        ('{"annotations": [{}], "images": [], "categories": []}', "KeyError: 'image_id'"),
        ("", "the table has the columns ; it needs"),
        ("PAR1\0\0", "is not a text file"),
    ],
    ids=["columns", "other-json", "numbers", "torn", "coco", "empty", "binary"],
)
def test_other_files_are_refused_in_one_sentence(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_labels(tmp_path / "t")

"""Read the labels of images from the files of other tools: CSV, COCO, FiftyOne and Label Studio."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

FILE_COLUMNS = ("path", "image", "file", "file_name", "filename")  # the first one that a table has is used
NAME_COLUMNS = ("label", "name", "class")
NUMBER_COLUMN = "cluster"  # of a table of this program; in a table of Label Studio it holds names
FORMATS = "a CSV table, or the JSON of COCO, FiftyOne, Label Studio or cgmcr2 export"


class Label(NamedTuple):
    """The cluster of an image as a file gives it: by name, by number, or both."""

    file: str
    name: str | None = None
    number: int | None = None
    by_person: bool | None = None  # whether a person gave the label; None if the file does not say


def read_labels(path: Path) -> list[Label]:
    """Read a CSV table or a JSON file of another tool; files without a label are left out.

    A label with a confidence was given by a model, and an annotation of Label Studio by a person.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "labels.csv"
    >>> _ = path.write_text("file,label\\na.jpg,dogs\\nb.jpg,\\n")
    >>> read_labels(path)
    [Label(file='a.jpg', name='dogs', number=None, by_person=None)]
    """
    text = path.read_bytes().decode("utf-8-sig", "surrogateescape")
    if "\0" in text:
        raise ValueError(f"{path} is not a text file; give {FORMATS}.")
    try:
        return list(_read_json(text) if text.lstrip()[:1] in ("{", "[") else _read_csv(text))
    except (KeyError, TypeError, IndexError, AttributeError, csv.Error, json.JSONDecodeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"{path} cannot be read ({reason}); give {FORMATS}.") from None
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from None


def _read_csv(text: str) -> Iterator[Label]:
    """The labels of a table with a header, or of one with two columns, the file and the cluster, and no header."""
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
    header = [cell.strip().lower() for cell in rows[0]] if rows else []
    if not set(header) & {*FILE_COLUMNS} or not set(header) & {*NAME_COLUMNS, NUMBER_COLUMN}:
        if len(header) != 2:
            needed = f"one of {', '.join(FILE_COLUMNS)} and one of {', '.join(NAME_COLUMNS)}, {NUMBER_COLUMN}"
            raise ValueError(f"the table has the columns {', '.join(header)}; it needs {needed}.")
        header, rows = ["file", "cluster"], [[], *rows]
    return _table_labels(dict(zip(header, row, strict=False)) for row in rows[1:])


def _table_labels(rows: Iterable[Mapping[str, Any]]) -> Iterator[Label]:
    """The labels of rows with the columns of a table."""
    for row in rows:
        file = next((row[column] for column in FILE_COLUMNS if row.get(column)), None)
        name = next((str(row[column]) for column in NAME_COLUMNS if row.get(column)), "").strip()
        cluster = str(row.get(NUMBER_COLUMN, "")).strip()
        if not cluster.isdecimal():
            name, cluster = name or cluster, ""
        if file is not None and (name or cluster):
            by_person = False if row.get("confidence") else None
            yield Label(str(file), name or None, int(cluster) if cluster else None, by_person)


def _read_json(text: str) -> Iterator[Label]:
    content = json.loads(text)
    if isinstance(content, list):
        return _label_studio(content)
    if "annotations" in content:
        return _coco(content)
    if isinstance(content.get("labels"), dict):
        return _fiftyone(content)
    if "images" in content and "clusters" in content:
        return _table_labels(content["images"])
    raise ValueError(f"the JSON is of none of the supported formats; give {FORMATS}.")


def _coco(content: Mapping[str, Any]) -> Iterator[Label]:
    files = {image["id"]: image["file_name"] for image in content["images"]}
    names = {category["id"]: category["name"] for category in content["categories"]}
    for annotation in content["annotations"]:
        by_person = False if "score" in annotation else None
        yield Label(files[annotation["image_id"]], names[annotation["category_id"]], by_person=by_person)


def _fiftyone(content: Mapping[str, Any]) -> Iterator[Label]:
    """The labels of FiftyOne: indices of classes or names, alone or in a dict, or a list of such for several labels."""
    classes: Sequence[str] = content.get("classes") or ()
    for file, target in content["labels"].items():
        for value in target if isinstance(target, list) else [target]:
            scored = isinstance(value, dict) and value.get("confidence") is not None
            label = value.get("label") if isinstance(value, dict) else value
            if label is not None:
                name = classes[label] if isinstance(label, int) and classes else str(label)
                yield Label(file, name, by_person=False if scored else None)


def _label_studio(tasks: Sequence[Mapping[str, Any]]) -> Iterator[Label]:
    """The labels that people gave in Label Studio's formats JSON and JSON_MIN; predictions are not labels."""
    for task in tasks:
        if "data" not in task:  # JSON_MIN
            row = {name: _first_choice(value) for name, value in task.items()}
            yield from (label._replace(by_person=True) for label in _table_labels([row]))
            continue
        strings = [value for value in task["data"].values() if isinstance(value, str)]
        file = task["data"].get("image") or strings[0]
        for annotation in task.get("annotations") or ():
            if annotation.get("was_cancelled"):
                continue
            for result in annotation["result"]:
                if result["type"] == "choices":
                    yield from (Label(file, choice, by_person=True) for choice in result["value"]["choices"])


def _first_choice(value: Any) -> Any:
    return value["choices"][0] if isinstance(value, dict) and "choices" in value else value

"""Write a clustering in the annotation formats of other tools: COCO, FiftyOne and Label Studio."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from cgmcr2._files import write_text
from cgmcr2.images import Catalog
from cgmcr2.images.decode import error_reason
from cgmcr2.images.sources import FileSource

from .clustering import Clustering

LOCAL_FILES = "/data/local-files/?d="  # Label Studio's URL of a file below its document root
CONTROL, OBJECT = "cluster", "image"  # names of the tags in Label Studio's labelling configuration

Missing = list[tuple[str, str]]


def write_annotations(clustering: Clustering, out: Path, to: str, images: Catalog) -> tuple[int, Missing]:
    """Write ``clustering`` as "coco", "fiftyone" or "label-studio" to ``out``: a file, a file, and a folder.

    Returns the number of exported images, and (id, reason) of those that are missing in ``images``.
    """
    rows = [row for row, id in enumerate(clustering.ids) if id in images.positions]
    missing = [(id, f"not found in {images.origin}") for id in clustering.ids if id not in images.positions]
    if to == "coco":
        values, unreadable = _coco(clustering, rows, images)
        _write_json(out, values)
        return len(rows) - len(unreadable), missing + unreadable
    if to == "fiftyone":
        _write_json(out, _fiftyone(clustering, rows, images))
    else:
        _write_json(out / "tasks.json", [_label_studio_task(clustering, row) for row in rows])
        write_text(out / "config.xml", _label_studio_config(clustering))
    return len(rows), missing


def _write_json(path: Path, values: Any) -> None:
    write_text(path, json.dumps(values, indent=1) + "\n")


def _coco(clustering: Clustering, rows: list[int], images: Catalog) -> tuple[dict[str, Any], Missing]:
    """COCO object detection: one box per image, which covers it, in the category of the cluster."""
    listed: list[dict[str, Any]] = []
    boxes: list[dict[str, Any]] = []
    unreadable: Missing = []
    for row in rows:
        id = clustering.ids[row]
        try:
            with images.find(id).open() as image:
                width, height = image.size
        except Exception as error:  # Pillow raises nearly any type for a damaged file
            unreadable.append((id, error_reason(error)))
            continue
        number = len(listed) + 1
        listed.append({"id": number, "file_name": id, "width": width, "height": height})
        boxes.append(
            {
                "id": number,
                "image_id": number,
                "category_id": int(clustering.labels[row]) + 1,
                "bbox": [0, 0, width, height],
                "area": width * height,
                "segmentation": [],
                "iscrowd": 0,
                "score": _score(clustering, row),
            }
        )
    # Readers take category 0 for the background.
    categories = [
        {"id": cluster + 1, "name": clustering.names[cluster], "supercategory": "cluster"}
        for cluster in clustering.clusters
    ]
    info = {"description": "Clusters of images by cgmcr2"}
    return {"info": info, "licenses": [], "images": listed, "annotations": boxes, "categories": categories}, unreadable


def _fiftyone(clustering: Clustering, rows: list[int], images: Catalog) -> dict[str, Any]:
    """The ``labels.json`` of a FiftyOneImageClassificationDataset.

    Images are named by their absolute path; those in an archive by their name without its extension, as FiftyOne looks
    them up in the folder that they are extracted to.
    """
    classes = {cluster: index for index, cluster in enumerate(clustering.clusters)}
    labels = {}
    for row in rows:
        id, source = clustering.ids[row], images.source
        key = os.path.join(source.base, id) if isinstance(source, FileSource) else os.path.splitext(id)[0]
        if key in labels:
            raise ValueError(f"FiftyOne cannot tell {id!r} from a file of another type; extract the archive first.")
        labels[key] = {"label": classes[int(clustering.labels[row])], "confidence": _score(clustering, row)}
    return {"classes": [clustering.names[cluster] for cluster in classes], "labels": labels}


def _label_studio_task(clustering: Clustering, row: int) -> dict[str, Any]:
    """A task of Label Studio. The cluster is an annotation if someone has confirmed it, otherwise a prediction."""
    name = clustering.names[clustering.labels[row]]
    choice = {"id": str(row), "from_name": CONTROL, "to_name": OBJECT, "type": "choices", "value": {"choices": [name]}}
    url = LOCAL_FILES + quote(clustering.ids[row], errors="surrogateescape")
    task: dict[str, Any] = {"data": {OBJECT: url}}
    if clustering.locked[row]:
        task["annotations"] = [{"result": [choice]}]
    else:
        task["predictions"] = [
            {"model_version": "cgmcr2", "score": _score(clustering, row), "result": [choice]},
        ]
    return task


def _label_studio_config(clustering: Clustering) -> str:
    choices = "".join(f"    <Choice value={quoteattr(clustering.names[c])}/>\n" for c in clustering.clusters)
    return (
        f'<View>\n  <Image name="{OBJECT}" value="${OBJECT}"/>\n'
        f'  <Choices name="{CONTROL}" toName="{OBJECT}" choice="single">\n{choices}  </Choices>\n</View>\n'
    )


def _score(clustering: Clustering, row: int) -> float:
    return round(float(clustering.confidence[row]), 4)

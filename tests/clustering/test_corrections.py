"""Labels of other tools become edits."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from cgmcr2.clustering import Clustering
from cgmcr2.clustering.corrections import find_corrections
from cgmcr2.clustering.export import Kind, export
from cgmcr2.clustering.labels import Label, read_labels
from cgmcr2.images import Catalog

C = Clustering(list("abcdef"), [0, 0, 0, 1, 1, 2], names=["cats", "dogs", "birds"])


def test_labels_move_confirm_and_add_clusters() -> None:
    labels = [Label("a", "dogs"), Label("b", "cats"), Label("c", "fish"), Label("d", "fish"), Label("z", "cats")]
    found = find_corrections(C, labels)
    edited = C.batch(found.edits)
    assert edited.names == ["cats", "dogs", "birds", "fish"]
    assert edited.labels.tolist() == [1, 0, 3, 3, 1, 2]
    assert edited.locked.tolist() == [True, True, True, True, False, False]
    assert found.moves == {("cats", "dogs"): 1, ("cats", "fish"): 1, ("dogs", "fish"): 1}
    assert (found.confirmed, found.agreeing, found.unknown) == (1, 1, ["z"])


def test_a_new_label_of_a_whole_cluster_renames_it() -> None:
    labels = [Label(id, "pets") for id in "abcde"] + [Label("f", "birds")]
    found = find_corrections(C, labels)
    assert found.renamed == {"cats": "pets"}  # the larger one; the images of the other move
    edited = C.batch(found.edits)
    assert edited.names == ["pets", "dogs", "birds"]
    assert edited.labels.tolist() == [0, 0, 0, 0, 0, 2]
    assert edited.locked.tolist() == [False, False, False, True, True, False]


def test_labels_of_all_images_confirm_only_if_a_person_gave_them() -> None:
    labels = [Label(id, C.names[label]) for id, label in zip(C.ids, C.labels, strict=True)]
    assert find_corrections(C, labels).edits == []
    assert find_corrections(C, labels).agreeing == 6
    assert find_corrections(C, labels[:5]).edits == [("lock", {"rows": [0, 1, 2, 3, 4]})]
    assert find_corrections(C, [label._replace(by_person=False) for label in labels[:5]]).edits == []
    by_person = find_corrections(C.lock([0]), [label._replace(by_person=True) for label in labels])
    assert by_person.edits == [("lock", {"rows": [1, 2, 3, 4, 5]})]
    assert by_person.confirmed == 5
    excluded = C.exclude([5])
    assert find_corrections(excluded, labels[:5]).edits == []


def test_a_locked_image_is_not_moved() -> None:
    found = find_corrections(C.lock([0]), [Label("a", "dogs"), Label("b", "dogs")])
    assert found.refused == ["a"]
    assert found.edits == [("move", {"rows": [1], "cluster": 1}), ("lock", {"rows": [1]})]


def test_excluded_is_a_label() -> None:
    edited = C.batch(find_corrections(C, [Label("a", "Excluded")]).edits)
    assert edited.labels[0] == edited.excluded == 3
    again = edited.batch(find_corrections(edited, [Label("b", "Excluded")]).edits)
    assert again.labels[1] == again.excluded == 3
    assert find_corrections(edited.unlock([0]), [Label("a", "cats")]).moves == {("Excluded", "cats"): 1}


@pytest.mark.parametrize(
    ("label", "cluster"),
    [
        (Label("a", "cats", 0), 0),
        (Label("a", "cats", 2), 2),  # the number was changed
        (Label("a", "birds", 0), 2),  # the name was changed
        (Label("a", "birds", 2), 2),
        (Label("a", "fish", 1), 3),
        (Label("a", None, 1), 1),
    ],
)
def test_the_changed_column_counts(label: Label, cluster: int) -> None:
    assert C.batch([*find_corrections(C, [label]).edits, ("lock", {"rows": [0]})]).labels[0] == cluster


def test_a_number_beyond_the_clusters_can_be_a_name() -> None:
    assert find_corrections(C.rename(1, "2024"), [Label("a", None, 2024)]).moves == {("cats", "2024"): 1}


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([Label("a", "birds", 1)], "'a' has the cluster 1 and the name 'birds'; change only one of them"),
        ([Label("a", None, 7)], r"'a' has the cluster 7; clusters are 0 \.\.\. 2"),
        ([Label("a", "cats"), Label("a", "dogs")], "'a' has two labels, 'cats' and 'dogs'; leave one of them"),
        ([Label("y", "cats"), Label("z", "cats")], "None of the 2 files is an image of the run, such as 'y'"),
    ],
    ids=["both", "number", "twice", "unknown"],
)
def test_contradictions_are_refused(labels: list[Label], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find_corrections(C, labels)


def export_file(clustering: Clustering, kind: Kind, photos: Path, tmp_path: Path) -> Path:
    out = export(clustering, tmp_path / "out", kind, images=Catalog.from_source(photos)).path
    return {"imagefolder": out / "metadata.csv", "label-studio": out / "tasks.json"}.get(kind, out)


@pytest.mark.parametrize("kind", ["csv", "json", "imagefolder", "coco", "fiftyone", "label-studio"])
def test_an_unchanged_export_changes_nothing(kind: Kind, photos: Path, clustering: Clustering, tmp_path: Path) -> None:
    found = find_corrections(clustering, read_labels(export_file(clustering, kind, photos, tmp_path)))
    assert found.edits == found.unknown == found.refused == []
    assert found.agreeing == (1 if kind == "label-studio" else 6)  # only the locked image is annotated


@pytest.mark.parametrize("kind", ["csv", "json", "imagefolder", "coco", "fiftyone", "label-studio"])
def test_a_corrected_export_moves_one_image(kind: Kind, photos: Path, clustering: Clustering, tmp_path: Path) -> None:
    """The last image, whose name is not Unicode, goes from "test" to the first cluster."""
    path = export_file(clustering, kind, photos, tmp_path)
    if path.suffix == ".csv" or kind == "csv":
        with path.open(newline="", encoding="utf-8", errors="surrogateescape") as file:
            header, *rows = csv.reader(file)
        rows[-1][header.index("name" if kind == "csv" else "label")] = clustering.names[0]
        with path.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
            csv.writer(file).writerows([header, *rows])
    else:
        content = json.loads(path.read_text())
        if kind == "json":
            content["images"][-1]["cluster"] = 0
        elif kind == "coco":
            content["annotations"][-1]["category_id"] = 1
        elif kind == "fiftyone":
            content["labels"][list(content["labels"])[-1]]["label"] = 0
        else:
            content[-1]["annotations"] = content[-1].pop("predictions")
            content[-1]["annotations"][0]["result"][0]["value"]["choices"] = [clustering.names[0]]
        path.write_text(json.dumps(content))
    found = find_corrections(clustering, read_labels(path))
    assert found.edits == [("move", {"rows": [5], "cluster": 0}), ("lock", {"rows": [5]})]

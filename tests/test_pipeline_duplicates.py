"""Near-duplicates in a run on images: each group counts once, is listed, and survives interruption and damage."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from cgmcr2 import cluster_images
from cgmcr2.runs import RunFolder, check_run, choose_clusters, repair_run

from .colours import QUICK, write_photos


def cluster(images: Path, run: Path) -> RunFolder:
    return cluster_images(images, 3, run, encoder="colours", settings=QUICK, precision="float32").folder


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty reddish, greenish and bluish images."""
    return write_photos(tmp_path_factory.mktemp("images") / "photos", 60)


@pytest.fixture(scope="module")
def images(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The photos, an exact copy of each of the first ten, and ten copies of the first one with other bytes."""
    folder = tmp_path_factory.mktemp("copies") / "photos"
    shutil.copytree(photos, folder)
    for number in range(10):
        shutil.copyfile(photos / f"{number:02}.png", folder / f"exact {number:02}.png")
        comment = PngInfo()
        comment.add_text("number", str(number))
        Image.open(photos / "00.png").save(folder / f"near {number:02}.png", pnginfo=comment)
    return folder


@pytest.fixture(scope="module")
def run(images: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return cluster(images, tmp_path_factory.mktemp("runs") / "run")


def test_near_duplicates_are_grouped_and_listed(run: RunFolder) -> None:
    with run.labels.open(newline="") as file:
        duplicate_of = {row["path"]: row["duplicate_of"] for row in csv.DictReader(file)}
    assert all(duplicate_of[f"exact {i:02}.png"] == f"{i:02}.png" for i in range(10))
    assert all(duplicate_of[f"near {i:02}.png"] == "00.png" for i in range(10))
    assert not any(duplicate_of[f"{i:02}.png"] for i in range(60))
    clustering = run.clustering
    assert clustering.groups is not None
    np.testing.assert_array_equal(clustering.labels[clustering.groups], clustering.labels)


def test_copies_do_not_change_the_clusters(photos: Path, run: RunFolder, tmp_path: Path) -> None:
    with_copies, alone = run.clustering, cluster(photos, tmp_path / "run").clustering
    rows = [with_copies.ids.index(id) for id in alone.ids]
    np.testing.assert_array_equal(with_copies.labels[rows], alone.labels)


def test_groups_of_a_run_are_sealed_and_rebuilt(run: RunFolder, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run.path, copy)
    for names in (("duplicates.json",), ("labels.csv",), ("duplicates.json", "clusters.csv")):
        before = {name: (copy / name).read_bytes() for name in names}
        for name in names:
            (copy / name).write_bytes(before[name][:-20])
        assert {finding.file for finding in check_run(copy) if finding.repairable} == set(names)
        assert repair_run(copy) == []
        assert {name: (copy / name).read_bytes() for name in names} == before


def test_choose_k_counts_groups_once_and_cluster_reuses_its_choice(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = choose_clusters(images, tmp_path / "run", encoder="colours")
    monkeypatch.setattr("cgmcr2.estimator.choose_k", None)  # not called again
    monkeypatch.setattr("cgmcr2.runs.inputs.find_groups", None)
    result = cluster_images(images, "auto", tmp_path / "run", encoder="colours", settings=QUICK, report=False)
    assert result.choice == choice


def test_an_interrupted_run_with_copies_is_resumed(
    images: Path, run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("cgmcr2.training.loop.TrainingStep.__call__", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            cluster(images, tmp_path / "run")
    assert (tmp_path / "run" / "duplicates.json").exists()
    monkeypatch.setattr("cgmcr2.runs.inputs.find_groups", None)  # not searched again
    assert cluster(images, tmp_path / "run").labels.read_bytes() == run.labels.read_bytes()


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt

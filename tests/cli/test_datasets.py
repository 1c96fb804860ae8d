"""datasets, and commands with the name of a data set, as a user types them."""

from __future__ import annotations

import csv
import dataclasses
import gzip
import json
import struct
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from cgmcr2.cli import run
from cgmcr2.datasets import dataset_info, info
from cgmcr2.encoders import register_encoder
from cgmcr2.features.sources import load_feature_file

TRAIN, TEST = 60, 20

register_encoder(
    "stripes",  # mean of each column of pixels: fast
    lambda: SimpleNamespace(
        name="stripes",
        fingerprint="stripes-1",
        dim=30,
        image_size=10,
        preprocess=lambda image: np.asarray(image.resize((10, 10))),
        encode=lambda batch: batch.mean(axis=1).reshape(len(batch), -1).astype(np.float32) / 255,
    ),
)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of an MNIST in the official format: 80 images in which the position of a stripe is the digit."""
    small = dataclasses.replace(dataset_info("mnist"), train=TRAIN, test=TEST)
    monkeypatch.setitem(info._BY_NAME, "mnist", small)
    folder = tmp_path / "data" / "mnist"
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    for prefix, n in (("train", TRAIN), ("t10k", TEST)):
        labels = (np.arange(n) % 10).astype(np.uint8)
        images = random.integers(0, 20, (n, 28, 28)).astype(np.uint8)
        for image, label in zip(images, labels, strict=True):
            image[:, int(2.8 * label) : int(2.8 * label) + 3] += 200
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
            (folder / f"{prefix}-{kind}-ubyte.gz").write_bytes(gzip.compress(header + array.tobytes()))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "data"


def test_embed_stores_the_labels_and_the_split(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("embed", "MNIST", "--data", "data", "--encoder", "stripes", "-o", "store", "-q") == 0
    assert "80 images, 80 new" in capsys.readouterr().out
    file = load_feature_file("store")
    assert file.labels is not None
    assert file.split is not None
    assert file.labels[:12].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]
    assert (file.split.sum(), len(file.rows("train"))) == (TEST, TRAIN)
    assert file.classes is not None
    assert len(file.classes) == 10


def test_cluster_fits_the_training_split_and_evaluates_the_test_split(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["cluster", "mnist", "--data", "data", "--encoder", "stripes", "-k", 10, "-o", "run", "-q"]
    assert run(*words, "--set", "warmup_epochs=2", "--set", "finetune_epochs=2") == 0
    shown = capsys.readouterr().out
    assert "60 images in" in shown
    assert "Against the data set's labels: ACC" in shown
    assert "fitted on split 0 (60 rows), predicted split 1 (20 rows) with the cluster head" in shown
    info = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (info["source"], info["data"]) == ("mnist", str(data))
    with (tmp_path / "run" / "labels.csv").open(newline="") as file:
        assert [row["path"] for row in csv.DictReader(file)][:2] == ["train/00000.png", "train/00001.png"]
    assert "MNIST needs" not in (tmp_path / "run" / "report.html").read_text()
    assert run("export", "run", "--to", "folders", "-o", "sorted") == 0
    assert len(list((tmp_path / "sorted").rglob("*.png"))) == TRAIN
    assert run("evaluate", "run", "run/features", "--part", "train") == 0
    assert run(*words, "--set", "warmup_epochs=2", "--set", "finetune_epochs=2") == 0  # prints the finished run
    (data / "mnist").rename(data / "gone")
    assert run("report", "run") == 0
    assert "MNIST needs train-images" in (tmp_path / "run" / "report.html").read_text()


def test_an_existing_path_takes_precedence(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mnist").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "mnist" / "a.png")
    assert run("embed", "mnist", "--encoder", "stripes", "-o", "store", "-q") == 0
    assert "1 image, 1 new" in capsys.readouterr().out
    assert load_feature_file("store").labels is None
    assert run("embed", "mnist", "--data", "data", "-o", "other") == 2
    assert "but 'mnist' is an existing path; omit it." in capsys.readouterr().err


def test_compare_uses_the_labels_and_the_number_of_classes(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", "mnist", "--data", "data", "--encoder", "stripes", "--methods", "k-means", "--seeds", 1]
    words.append("--in-process")
    assert run(*words, "-o", "out", "-q") == 0
    shown = capsys.readouterr().out
    assert "| k-means | 1 | 100.0 |" in " ".join(shown.split())
    assert "fitted on split 0 (60 rows), predicted split 1 (20 rows)" in shown
    assert run(*words, "-o", "out", "-q") == 0


def test_reproduce_embeds_missing_features(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["reproduce", "table-5", "--data", "data", "--features", "store", "--seeds", 1, "-o", "out", "-q"]
    small = ["--set", "hidden_dim=16", "--set", "warmup_epochs=1", "--set", "finetune_epochs=1"]
    small += ["--set", "scan.max_steps=1", "--set", "cpp.max_steps=1", "--set", "cpp.hidden_dim=16"]
    assert run(*words, *small, "--encoder", "stripes", "--in-process") == 0
    shown = capsys.readouterr().out
    assert "MNIST: stripes" in shown
    assert "Flowers-102 is left out: Flowers-102 needs imagelabels.mat in 'data', but it was not found" in shown
    assert load_feature_file(tmp_path / "store" / "mnist-stripes").labels is not None


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["mnist"], "'mnist' is a data set name; give the folder of its files with data (--data)."),
        (["mnist", "--data", "nowhere"], "MNIST needs train-images-idx3-ubyte.gz"),
        (["photos"], "There is no file or folder 'photos'"),
        (["photos", "--data", "data"], "but 'photos' is not one; omit it."),
    ],
)
def test_user_errors_are_one_sentence(
    data: Path, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("embed", *words, "-o", "store") == 2
    assert sentence in capsys.readouterr().err


def test_datasets_lists_sizes_licences_and_citations(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("datasets") == 0
    shown = capsys.readouterr().out
    assert shown.count("  licence  ") == 9
    assert "cifar10: CIFAR-10, 10 classes, 50,000 + 10,000 images" in shown
    assert run("datasets", "flowers-102") == 0
    shown = capsys.readouterr().out
    assert "flowers102: Flowers-102, 102 classes, 8,189 images" in shown
    assert "MNIST" not in shown

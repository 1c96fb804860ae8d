"""The report of a run folder, with and without its images."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import make_blobs

from cgmcr2 import CgMCR2
from cgmcr2.features.store import FeatureStore
from cgmcr2.report import report_run, write_report
from cgmcr2.runs import RunFolder, RunInfo, fit_features
from cgmcr2.runs.info import FittedOn
from cgmcr2.training import train
from cgmcr2.training.log import MetricsFile

from .pages import clustering, read_page, write_photos


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run on 30 images whose feature store has its rows in another order."""
    source = tmp_path / "photos"
    source.mkdir()
    c = clustering(30)
    write_photos(source, c.ids)
    folder = tmp_path / "run"
    c.save(folder)
    X = np.arange(30 * 4, dtype=np.float32).reshape(30, 4)
    FeatureStore.create(folder / "features", X[::-1], c.ids[::-1])
    info = RunInfo(
        source=str(source),
        fitted_on=FittedOn("all images", 30, 4),
        encoder="fingerprint",
        parameters={"n_clusters": 3},
        encoder_name="bundled",
        protocol="fitted on all rows",
        stability=0.5,
        finished=True,
    )
    info.write(folder / "run.json")
    lines = [json.dumps({"step": s, "loss": 1.0 / (s + 1)}) for s in range(5)]
    (folder / "metrics.jsonl").write_text("\n".join(lines) + '\n{"step": 5, "lo')
    RunFolder(folder).seal()
    return folder


def test_report_of_a_run_on_images(run: Path) -> None:
    path = report_run(run)
    assert path == run / "report.html"
    page, data, thumbnails = read_page(path)
    assert len(thumbnails) == 30
    assert data["base"] == "./../photos"
    assert data["stability"] == 0.5
    for text in ("30 images in 3 clusters", "fitted on all rows", "Loss"):
        assert text in page.text
    assert sum(tag == "img" for tag, _ in page.elements) == 3


def test_moved_images(run: Path, tmp_path: Path) -> None:
    os.rename(tmp_path / "photos", tmp_path / "moved")
    page, _, thumbnails = read_page(report_run(run))
    assert thumbnails == {}
    assert "Showing file names, because the images were not found" in page.text
    assert "30 images in 3 clusters" in page.text
    _, _, thumbnails = read_page(report_run(run, tmp_path / "again.html", images=tmp_path / "moved"))
    assert len(thumbnails) == 30
    (tmp_path / "other").mkdir()
    Image.new("RGB", (3, 3)).save(tmp_path / "other" / "other.png")
    with pytest.raises(ValueError, match="none of the run's images"):
        report_run(run, images=tmp_path / "other")


def test_report_of_a_run_on_features(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((60, 5)).astype(np.float32))
    c = clustering(60, ids=[str(i) for i in range(60)])
    c.save(tmp_path / "run")
    info = RunInfo(source=str(tmp_path / "x.npy"), fitted_on=FittedOn("all rows", 60, 5), parameters={}, finished=True)
    info.write(tmp_path / "run" / "run.json")
    RunFolder(tmp_path / "run").seal()
    page, _, thumbnails = read_page(report_run(tmp_path / "run"))
    assert thumbnails == {}
    assert "60 rows in 3 clusters" in page.text
    assert "file names" not in page.text
    assert sum(tag == "img" for tag, _ in page.elements) == 3


def test_report_is_reproducible(run: Path, tmp_path: Path) -> None:
    """Also in another process, whose sets and hashes are in another order."""
    expected = report_run(run).read_bytes()
    assert report_run(run).read_bytes() == expected
    out = tmp_path / "run" / "again.html"  # in the same folder, because the page links to the images
    program = "import sys; from cgmcr2.report import report_run; report_run(sys.argv[1], sys.argv[2])"
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "TZ": "Asia/Tokyo", "LC_ALL": "C"}
    subprocess.run([sys.executable, "-c", program, str(run), str(out)], env=environment, check=True)
    assert out.read_bytes() == expected


def test_report_does_not_depend_on_the_order_of_the_errors(tmp_path: Path) -> None:
    errors = [("b.jpg", "truncated"), ("a.jpg", "empty file")]
    first = write_report(clustering(), tmp_path / "a.html", errors=errors).read_bytes()
    assert write_report(clustering(), tmp_path / "b.html", errors=errors[::-1]).read_bytes() == first


@pytest.mark.parametrize("updates", [1, 7, 25])
def test_resumed_run_has_the_report_of_an_uninterrupted_one(
    updates: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is interrupted when it writes ``metrics.jsonl`` for the ``updates``-th time."""
    X, _ = make_blobs(90, n_features=8, centers=3, random_state=0)
    np.save(tmp_path / "x.npy", X.astype(np.float32))
    settings = {"hidden_dim": 16, "warmup_epochs": 20, "finetune_epochs": 10, "n_heads": 1}
    monkeypatch.setitem(train.__kwdefaults__, "checkpoint_seconds", -1.0)  # a checkpoint after every step

    def fit(folder: str) -> bytes:
        model = CgMCR2("auto", settings=settings)
        return report_run(fit_features(model, tmp_path / "x.npy", tmp_path / folder).folder).read_bytes()

    expected = fit("uninterrupted")
    append, calls = MetricsFile.append, itertools.count(1)

    def append_and_stop(self: MetricsFile, records: list[Any]) -> None:
        append(self, records)
        if next(calls) == updates:
            raise RuntimeError("interrupted")

    with monkeypatch.context() as patch:
        patch.setattr(MetricsFile, "append", append_and_stop)
        with pytest.raises(RuntimeError, match="interrupted"):
            fit("resumed")
    assert fit("resumed") == expected


def test_folder_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="not a run folder"):
        report_run(tmp_path)
    clustering().save(tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(ValueError, match="damaged"):
        report_run(tmp_path)

"""export as a user types it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cgmcr2.cli import run
from cgmcr2.clustering import Clustering
from cgmcr2.features import FeatureStore
from cgmcr2.runs import RunFolder, RunInfo
from cgmcr2.runs.info import FittedOn
from cgmcr2.runs.onnx import OnnxExport


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Run folder of 4 images."""
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(4):
        Image.new("RGB", (8, 8), (number * 20, 0, 0)).save(photos / f"{number}.png")
    Clustering([f"{i}.png" for i in range(4)], [0, 1, 0, 1], names=["red", "dark/red"]).save(tmp_path / "run")
    info = RunInfo(str(photos), FittedOn("all images", 4, 3), {}, encoder_name="colours", finished=True)
    run_folder = RunFolder(tmp_path / "run")
    run_folder.write_info(info)
    run_folder.seal()
    return run_folder.path


def test_folders_are_the_default(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert run("export", folder, "-o", out) == 0
    assert f"4 images in 2 clusters: {out}" in capsys.readouterr().out
    assert sorted(str(path.relative_to(out)) for path in out.rglob("*.png")) == [
        "dark-red/1.png",
        "dark-red/3.png",
        "red/0.png",
        "red/2.png",
    ]
    assert (tmp_path / "photos" / "0.png").is_file()


def test_links_and_tables(folder: Path, tmp_path: Path) -> None:
    assert run("export", folder, "--to", "imagefolder", "--link", "symlink", "-o", tmp_path / "train") == 0
    assert (tmp_path / "train" / "00-red" / "0.png").is_symlink()
    assert run("export", folder, "--to", "json", "-o", tmp_path / "t.json") == 0
    assert len(json.loads((tmp_path / "t.json").read_text())["images"]) == 4


def test_a_table_needs_no_images(folder: Path, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "photos")
    assert run("export", folder, "--to", "csv", "-o", tmp_path / "t.csv") == 0


def test_features_in_a_table(photo_run: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    assert run("export", photo_run, "--to", "parquet", "--features", "-o", tmp_path / "t.parquet") == 0
    table = parquet.read_table(tmp_path / "t.parquet")
    assert table.schema.field("features").type.list_size == 12  # of the encoder "colours"
    store = FeatureStore.open(photo_run / "features")
    rows = [store.ids.index(id) for id in table["path"].to_pylist()]
    np.testing.assert_array_equal(table["features"].to_pylist(), store[rows])


def test_features_that_are_gone(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("export", folder, "--to", "arrow", "--features", "-o", tmp_path / "t.arrow") == 2
    assert "are no longer available; export without --features." in capsys.readouterr().err


def test_model(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The export itself is tested in tests/runs/test_onnx.py."""
    monkeypatch.setattr("cgmcr2.runs.onnx.export_onnx", lambda run, out, images: OnnxExport(out, "bundled", 256, 255))
    assert run("export", folder, "--to", "onnx", "-o", "deploy") == 0
    assert capsys.readouterr().out == (
        "Model that takes images (encoder bundled): deploy/model.onnx\n255 of 256 labels equal to those of predict\n"
    )
    assert run("export", folder, "--to", "onnx", "-o", "deploy", "--json") == 0
    values = {"path": "deploy", "encoder": "bundled", "checked": 256, "equal": 255}
    assert json.loads(capsys.readouterr().out) == values


def test_missing_images_are_listed(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "photos" / "1.png").unlink()
    assert run("export", folder, "-o", tmp_path / "out") == 1
    output = capsys.readouterr()
    assert "3 images in 2 clusters" in output.out
    assert "cgmcr2: 1 image could not be exported:\n  '1.png': not found in" in output.err


def test_user_errors(folder: Path, fitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "existing").mkdir()
    for words, sentence in (
        ([folder, "-o", tmp_path / "existing"], "already exists"),
        ([tmp_path / "existing", "--to", "csv", "-o", tmp_path / "x"], "is not a run folder"),
        ([folder, "--images", tmp_path / "gone", "-o", tmp_path / "x"], "are not in"),
        ([fitted, "-o", tmp_path / "x"], "was fitted on features, not on images; export a table, such as --to csv."),
    ):
        assert run("export", *words) == 2
        error = capsys.readouterr().err
        assert sentence in error
        assert error.count("\n") == 1
    assert run("export", folder, "--to", "xlsx", "-o", tmp_path / "x") == 2
    assert "'xlsx' is not one of 'folders', 'imagefolder'" in capsys.readouterr().err

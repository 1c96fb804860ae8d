"""search as a user types it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from cgmcr2 import Clustering
from cgmcr2.cli import run as program
from cgmcr2.features.search import most_similar


@pytest.fixture
def run(reading_run: Path, tmp_path: Path) -> Path:
    return shutil.copytree(reading_run, tmp_path / "run")


def found(capsys: pytest.CaptureFixture[str]) -> list[int]:
    return [int(Path(image["path"]).stem) for image in json.loads(capsys.readouterr().out)["images"]]


def test_search_by_text(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program("search", run, "a blue thing", "-n", 20, "--json") == 0
    assert {number % 3 for number in found(capsys)} == {2}
    assert program("search", run, "red", "-n", 2) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert float(lines[0].split()[0]) >= float(lines[1].split()[0])


def test_search_by_image_and_row(run: Path, photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program("search", run, "--image", photos / "04.png", "-n", 5, "--json") == 0
    by_image = found(capsys)
    assert by_image[0] == 4
    assert {number % 3 for number in by_image} == {1}
    assert program("search", run, "--row", "04.png", "-n", 5, "--json") == 0
    assert found(capsys) == by_image


def test_results_become_a_cluster_and_excluded_images_are_left_out(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program("search", run, "green", "-n", 5, "--to-cluster", "grass") == 0
    assert "5 images moved to 'grass'" in capsys.readouterr().out
    clustering = Clustering.load(run)
    grass = {clustering.ids[row] for row in clustering.rows("grass")}
    assert len(grass) == 5
    assert program("search", run, "green", "-n", 8, "--to-cluster", "grass", "-q") == 0
    assert len(Clustering.load(run).rows("grass")) == 8
    assert program("edit", run, "lock", *sorted(grass)[:2]) == 0
    assert program("search", run, "green", "-n", 5, "--to-cluster", "leaves") == 0
    assert f"{5 - len(set(sorted(grass)[:2]))} images moved to 'leaves'" in capsys.readouterr().out
    assert program("edit", run, "undo") == 0
    assert program("edit", run, "unlock", *sorted(grass)[:2]) == 0
    assert program("edit", run, "exclude", *grass) == 0
    capsys.readouterr()
    assert program("search", run, "green", "-n", 15, "--json") == 0
    numbers = found(capsys)
    assert len(numbers) == 15
    assert not {f"{number:02}.png" for number in numbers} & grass


def test_results_move_to_an_empty_cluster(run: Path) -> None:
    assert program("search", run, "green", "-n", 5, "--to-cluster", "grass", "-q") == 0
    assert program("search", run, "green", "-n", 5, "--to-cluster", "leaves", "-q") == 0  # grass is empty now
    assert program("search", run, "green", "-n", 5, "--to-cluster", "grass", "-q") == 0
    assert len(Clustering.load(run).rows("grass")) == 5


def test_errors(run: Path, photo_run: Path, fitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, message in (
        ([run], "needs one query, but 0 were given"),
        ([run, "red", "--row", "04.png"], "needs one query, but 2 were given"),
        ([run, " "], "is empty"),
        ([run, "--row", "no.png"], "has no image 'no.png'"),
        ([run, "--image", tmp_path / "no.png"], "no.png"),
        ([photo_run, "red"], "The encoder colours does not read text; search by image or row"),
        ([fitted, "red"], "features of an unknown model"),
        ([fitted, "--image", tmp_path], "was fitted on features"),
    ):
        assert program("search", *words) == 2
        assert message in capsys.readouterr().err


def test_words_of_a_file_for_features(fitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "words.npz", names=["bright"], synonyms=["bright|light"], embeddings=np.ones((1, 64)))
    assert program("search", fitted, "light", "--text-embeddings", tmp_path / "words.npz", "-n", 3, "--json") == 0
    assert len(found(capsys)) == 3
    assert program("search", fitted, "dark", "--text-embeddings", tmp_path / "words.npz") == 2
    assert "have no word 'dark'" in capsys.readouterr().err


@pytest.mark.parametrize("block_rows", [1, 7, 1000])
def test_search_is_exact_for_every_size_of_blocks(block_rows: int) -> None:
    rng = np.random.default_rng(0)
    X, query = rng.standard_normal((100, 5)).astype(np.float32), rng.standard_normal(5).astype(np.float32)
    cosine = X @ query / np.linalg.norm(X, axis=1) / np.linalg.norm(query)
    rows, similarities = most_similar(X, query, 10, block_rows=block_rows)
    np.testing.assert_array_equal(rows, np.argsort(-cosine, kind="stable")[:10])
    np.testing.assert_allclose(similarities, np.sort(cosine)[::-1][:10], rtol=1e-4)

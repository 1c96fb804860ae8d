"""pretrain as a user types it, and --views."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cgmcr2.cli import run
from cgmcr2.features import FeatureStore

SMALL = ["--width", 2, "--size", 16, "--epochs", 2]


@pytest.fixture(scope="module")
def forty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("forty")
    rng = np.random.default_rng(0)
    for number in range(40):
        colours = rng.integers(0, 256, (3, 3, 3), dtype=np.uint8)
        Image.fromarray(colours).resize((24, 24)).save(folder / f"{number}.png")
    return folder


def test_from_forty_photos_to_clusters(
    forty: Path, quick: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    encoder = tmp_path / "encoder"
    assert run("pretrain", forty, "-o", encoder, *SMALL) == 0
    captured = capsys.readouterr()
    assert "Encoder with 16 features, trained on 16 x 16 pixels in 2 steps" in captured.out
    assert "40 images are too few to train a useful encoder" in captured.err
    assert run("pretrain", forty, "-o", encoder, *SMALL, "--json") == 0
    assert json.loads(capsys.readouterr().out)["trained"] is False
    assert run("pretrain", forty, "-o", encoder, *SMALL[:4], "--epochs", 3) == 2
    assert "epochs was 2.0, is 3.0 now" in capsys.readouterr().err

    folder = tmp_path / "run"
    options = ("--encoder", encoder, "--views", 2, "--no-report")
    assert run("cluster", forty, "-k", 3, "-o", folder, *options, *quick) == 0
    assert json.loads((folder / "run.json").read_text())["encoder_name"] == f"{encoder}?views=2"
    assert run("predict", folder, forty, "-o", tmp_path / "labels.csv", "--no-cache", "-q") == 0
    fitted, predicted = ((path / name).read_text() for path, name in ((folder, "labels.csv"), (tmp_path, "labels.csv")))
    assert [line.split(",")[:2] for line in fitted.splitlines()] == [
        line.split(",")[:2] for line in predicted.splitlines()
    ]


def test_views_are_part_of_the_store(forty: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    encoder = ("--encoder", "bundled?size=32", "-q")
    assert run("embed", forty, "-o", tmp_path / "one", *encoder) == 0
    assert run("embed", forty, "-o", tmp_path / "two", *encoder, "--views", 2) == 0
    assert run("embed", forty, "-o", tmp_path / "again", *encoder, "--views", 2) == 0
    one, two, again = (FeatureStore.open(tmp_path / name)[:] for name in ("one", "two", "again"))
    assert not np.allclose(one, two)
    np.testing.assert_array_equal(two, again)
    assert run("embed", forty, "-o", tmp_path / "one", *encoder, "--views", 2) == 2
    assert run("embed", forty, "-o", tmp_path / "none", *encoder, "--views", 0) == 2
    capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere"),
        (["{forty}", "--set", "que=9"], "did you mean 'queue'?"),
        (["{forty}", "--set", "queue"], "has no value"),
        (["{forty}", "--epochs", -1], "epochs must be a number above 0, but is -1.0."),
        (["{forty}", "--width", 0], "width must be at least 1, but is 0."),
        (["{forty}", "--method", "byol"], "byol"),
    ],
)
def test_wrong_input_is_one_sentence(
    arguments: list[object], message: str, forty: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(argument).replace("{forty}", str(forty)) for argument in arguments]
    assert run("pretrain", *words, "-o", tmp_path / "encoder") == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error

"""From a folder of images to a run folder: complete, killed and resumed, hostile files."""

from __future__ import annotations

import csv
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from cgmcr2 import Clustering, cluster_images
from cgmcr2.cli import run as shell

from .colours import QUICK, write_photos

FLAGS = ["-q", *(word for name, value in QUICK.items() for word in ("--set", f"{name}={value}"))]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty reddish, greenish and bluish images."""
    return write_photos(tmp_path_factory.mktemp("images") / "photos", 60)


@pytest.fixture(scope="module")
def finished(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "run"
    cluster_images(photos, 3, run, encoder="colours", settings=QUICK, precision="float32")
    return run


def test_the_run_folder_of_a_finished_run(finished: Path) -> None:
    clustering = Clustering.load(finished)
    assert all(len({int(label) for label in clustering.labels[colour::3]}) == 1 for colour in range(3))
    assert len(set(clustering.labels[:3])) == 3
    assert not (finished / "errors.csv").exists()
    assert "60 images in 3 clusters" in (finished / "report.html").read_text(encoding="utf-8")
    info = json.loads((finished / "run.json").read_text())
    assert (info["encoder_name"], info["encoder"]) == ("colours", "colours-1")


def test_new_images_get_labels_confidence_and_margin(photos: Path, finished: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    new.mkdir()
    Image.new("RGB", (20, 20), (230, 20, 30)).save(new / "red.png")
    Image.new("RGB", (20, 20), (20, 30, 230)).save(new / "blue.jpg")
    out = tmp_path / "new.csv"
    for _ in range(2):  # the second call finds the features
        assert shell("predict", finished, new, "-o", out, "-q") == 0
    with out.open(newline="") as file:
        rows = {row["path"]: row for row in csv.DictReader(file)}
    labels = Clustering.load(finished).labels
    assert int(rows["red.png"]["cluster"]) == labels[0]
    assert int(rows["blue.jpg"]["cluster"]) == labels[2]
    assert 0 < float(rows["red.png"]["margin"]) <= float(rows["red.png"]["confidence"]) <= 1


def test_renamed_clusters_keep_their_names_in_predictions(photos: Path, finished: Path, tmp_path: Path) -> None:
    from cgmcr2.runs import Edits, Predictor

    run = tmp_path / "run"
    shutil.copytree(finished, run)
    clustering = Clustering.load(run)
    red, blue = int(clustering.labels[0]), int(clustering.labels[2])
    with Edits(run) as edits:
        edits.rename(red, "red")
        edits.merge([red, blue])
    predicted = Predictor(run).predict_images(photos, use_cache=False).clustering
    assert predicted.names[red] == "red"
    assert set(predicted.labels) == {red, int(clustering.labels[1])}


def test_the_run_is_refused_when_the_images_have_changed(
    photos: Path, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(photos, tmp_path / "photos")
    command = ["cluster", tmp_path / "photos", "-k", 3, "-o", tmp_path / "run", "--encoder", "colours", *FLAGS]
    assert shell(*command, "--no-report") == 0
    Image.new("RGB", (20, 20), (230, 20, 30)).save(tmp_path / "photos" / "new.png")
    assert shell(*command) == 2
    assert "--refit" in capsys.readouterr().err


def test_run_folder_inside_the_photos(photos: Path, tmp_path: Path) -> None:
    shutil.copytree(photos, tmp_path / "photos")
    command = [
        "cluster",
        tmp_path / "photos",
        "-k",
        3,
        "-o",
        tmp_path / "photos" / "run",
        "--encoder",
        "colours",
        *FLAGS,
    ]
    assert shell(*command, "--no-report") == 0
    assert shell(*command, "--no-report") == 0
    assert len(Clustering.load(tmp_path / "photos" / "run").ids) == 60


def test_a_killed_run_is_resumed_to_the_same_result(photos: Path, finished: Path, tmp_path: Path) -> None:
    """The process kills itself after its 1st, 2nd, 4th, ... finished file, and is restarted until it finishes."""
    program = (
        "import os, signal, sys\n"
        "sys.path.insert(0, sys.argv.pop(1))\n"
        "import colours\n"
        "from cgmcr2.training import train\n"
        "train.__kwdefaults__['checkpoint_seconds'] = -1.0\n"  # a checkpoint after every step
        "remaining, replace = [int(sys.argv.pop(1))], os.replace\n"
        "def replace_and_die(*paths):\n"
        "    replace(*paths)\n"
        "    remaining[0] -= 1\n"
        "    if remaining[0] == 0: os.kill(os.getpid(), signal.SIGKILL)\n"
        "os.replace = replace_and_die\n"
        "from cgmcr2.cli import main; main()"
    )
    command = [
        "cluster",
        photos,
        "-k",
        3,
        "-o",
        tmp_path / "run",
        "--encoder",
        "colours",
        *FLAGS,
        "--precision",
        "float32",
    ]
    for files in (1, 4, 9, 30, 1000):
        arguments = [sys.executable, "-c", program, str(Path(__file__).parent), str(files), *map(str, command)]
        ended = subprocess.run(arguments, capture_output=True, text=True, check=False)
        assert ended.returncode in (0, -9), ended.stderr
    assert ended.returncode == 0
    for name in ("labels.csv", "embeddings.npy", "metrics.jsonl", "model/model.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (finished / name).read_bytes(), name
    assert (tmp_path / "run" / "report.html").exists()


def fuzzed(good: bytes, seed: int) -> bytes:
    chance, data = random.Random(seed), bytearray(good)
    for _ in range(20):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data[: chance.randrange(10, len(data))])


def test_hostile_files_are_listed_and_good_ones_clustered(photos: Path, tmp_path: Path) -> None:
    folder = tmp_path / "hostile"
    folder.mkdir()
    names: list[str | bytes] = [
        "a\nb.png",
        'it\'s "quoted".png',
        "<script>document.title='owned'<:script>.png",
        b"caf\xe9.png",
    ]
    for i, name in enumerate(names):
        Path(os.fsdecode(os.path.join(os.fsencode(folder), os.fsencode(name)))).write_bytes(
            (photos / f"{i:02}.png").read_bytes()
        )
    for i in range(30):
        (folder / f"good{i}.png").write_bytes((photos / f"{i:02}.png").read_bytes())
        (folder / f"fuzz{i}.png").write_bytes(fuzzed((photos / f"{i:02}.png").read_bytes(), i))
    jpeg = tmp_path / "x.jpg"
    Image.new("RGB", (64, 64), (200, 10, 10)).save(jpeg)
    for i in range(10):
        (folder / f"fuzz{i}.jpg").write_bytes(fuzzed(jpeg.read_bytes(), i))
    (folder / "empty.jpg").touch()
    Image.new("1", (20_000, 20_000)).save(folder / "bomb.png")
    os.mkfifo(folder / "fifo.jpg")
    (folder / "dangling.jpg").symlink_to(folder / "nowhere.jpg")
    (folder / "loop").symlink_to(folder)

    run = tmp_path / "run"
    clustering = cluster_images(folder, 3, run, encoder="colours", settings=QUICK).clustering
    assert {f"good{i}.png" for i in range(30)} <= set(clustering.ids)
    assert {os.fsdecode(name) for name in names} <= set(clustering.ids)
    with (run / "errors.csv").open(newline="", encoding="utf-8") as file:
        listed = {row["path"]: row["reason"] for row in csv.DictReader(file)}
    assert {"empty.jpg", "bomb.png", "fifo.jpg", "dangling.jpg"} <= listed.keys()
    assert all(listed.values())
    assert not set(listed) & set(clustering.ids)
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "<script>document.title" not in page
    assert Clustering.load(run) == clustering


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["cluster", "nowhere", "-k", 3], "nowhere"),
        (["cluster", "photos"], "number of clusters is missing"),
        (["cluster", "photos", "-k", "few"], "or auto"),
        (["cluster", "photos", "-k", 61], "n_clusters is 61"),
        (["cluster", "photos", "-k", 3, "--encoder", "clap"], "clap"),
        (["cluster", "empty", "-k", 3], "empty"),
    ],
)
def test_bad_input_is_one_sentence(
    photos: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[object],
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").symlink_to(photos)
    (tmp_path / "empty").mkdir()
    assert shell(*words, "-o", "out", "-q", *([] if "--encoder" in words else ["--encoder", "colours"])) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_refit_embeds_new_images_only_and_keeps_names(photos: Path, tmp_path: Path) -> None:
    from cgmcr2.runs import Edits

    folder, run = tmp_path / "photos", tmp_path / "run"
    shutil.copytree(photos, folder)
    clustering = cluster_images(folder, 3, run, encoder="colours", settings=QUICK, report=False).clustering
    with Edits(run) as edits:
        edits.rename(int(clustering.labels[0]), "red")
    shards = {path: path.read_bytes() for path in (run / "features").glob("shard-*.npy")}
    Image.new("RGB", (16, 16), (230, 20, 30)).save(folder / "new.png")
    refitted = cluster_images(folder, 3, run, encoder="colours", settings=QUICK, report=False, refit=True).clustering
    assert len(refitted) == 61
    assert refitted.names[int(refitted.labels[refitted.ids.index("new.png")])] == "red"
    assert all(path.read_bytes() == rows for path, rows in shards.items())
    assert not (run / ".refit").exists()


def test_refit_replaces_a_model_of_an_earlier_format(photos: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    options = {"encoder": "colours", "settings": QUICK, "report": False}
    cluster_images(photos, 3, run, **options)
    config = run / "model" / "config.json"
    content = config.read_text()
    config.write_text(content.replace('"format": 2', '"format": 1'))
    cluster_images(photos, 3, run, **options)
    assert '"format": 1' in config.read_text()  # nothing is replaced without being asked
    folder = cluster_images(photos, 3, run, **options, refit=True).folder
    assert config.read_text() == content
    assert folder.model().n_clusters == 3

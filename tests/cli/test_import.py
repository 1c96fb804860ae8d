"""The command ``cgmcr2 import``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cgmcr2.cli import run as program
from cgmcr2.runs import Edits


@pytest.fixture
def run(fitted: Path, tmp_path: Path) -> str:
    return str(shutil.copytree(fitted, tmp_path / "run"))


def test_a_corrected_table_is_imported(run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "clusters.csv"
    assert program("export", run, "--to", "csv", "-o", str(table), "-q") == 0
    capsys.readouterr()
    assert program("import", run, str(table)) == 0
    lines = table.read_text().splitlines()
    n = len(lines) - 1
    assert capsys.readouterr().out == f"Nothing to change; images that agree with their label: {n}\n"
    path, cluster, name, *_ = lines[1].split(",")
    table.write_text("\n".join([lines[0], lines[1].replace(f",{name},", ",dogs,"), *lines[2:], "x.jpg,0,,,,"]) + "\n")
    assert program("import", run, str(table), "--preview") == 0
    output = capsys.readouterr()
    assert (
        output.out
        == f"1 image from '{name}' to 'dogs'\n1 image would be moved, 0 confirmed, {n - 1} agree with their cluster\n"
    )
    assert output.err == "cgmcr2: warning: 1 file is not among the images of the run: 'x.jpg'\n"
    assert program("import", run, str(table), "--json") == 0
    values = json.loads(capsys.readouterr().out)
    assert values["moves"] == [{"from": name, "to": "dogs", "images": 1}]
    assert values["unknown"] == ["x.jpg"]
    with Edits(run, read_only=True) as edits:
        assert len(edits.log) == 1
        row = edits.fitted.ids.index(path)
        assert edits.clustering.names[edits.clustering.labels[row]] == "dogs"
        assert edits.fitted.labels[row] == int(cluster)
    assert program("edit", run, "log") == 0
    assert "make a new cluster of 1 image, called 'dogs'; lock 1 image" in capsys.readouterr().out
    assert program("edit", run, "undo") == 0


def test_locked_images_are_listed(run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Edits(run) as edits:
        edits.lock([5])
        other = edits.fitted.names[edits.fitted.labels[5] - 1]
    (tmp_path / "t.csv").write_text(f"{edits.fitted.ids[5]},{other}\n")
    assert program("import", run, str(tmp_path / "t.csv")) == 0
    assert "1 file is locked in another cluster and not moved" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "No such file or directory"),
        ("x.jpg,dogs\n", "None of the 1 files is an image of the run"),
        ("[{}", "cannot be read"),
    ],
    ids=["missing", "unknown", "torn"],
)
def test_a_bad_file_is_one_sentence(
    text: str | None, message: str, run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (tmp_path / "t.csv").write_text(text)
    capsys.readouterr()
    assert program("import", run, str(tmp_path / "t.csv")) != 0
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1

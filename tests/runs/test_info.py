from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from cgmcr2.runs import RunInfo
from cgmcr2.runs.info import FittedOn

INFO = RunInfo(source="/photos", fitted_on=FittedOn("all rows", 3, 2), parameters={})


def test_run_json_round_trips(tmp_path: Path) -> None:
    INFO.write(tmp_path / "run.json")
    assert RunInfo.read(tmp_path / "run.json") == INFO
    assert "torch" in INFO.versions


def test_differences_name_the_parts_of_the_request_only() -> None:
    other = dataclasses.replace(INFO, source="/other", parameters={"n_clusters": 3}, finished=True, stability=0.5)
    assert INFO.differences(other) == ["source", "parameters"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"format": 99}, "has format 99 of a newer version of cgmcr2, but this version reads format 1"),
        ({"format": None}, "damaged"),
        ({"finished": "yes"}, r"damaged \(Expected `bool`, got `str` - at `\$.finished`\)"),
        ({"fitted_on": {"part": "all rows"}}, r"damaged \(Object missing required field `rows`"),
    ],
)
def test_a_damaged_or_newer_file_is_one_sentence(tmp_path: Path, change: dict[str, object], sentence: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps({**dataclasses.asdict(INFO), **change}))
    with pytest.raises(ValueError, match=sentence):
        RunInfo.read(path)
    path.write_text("{")
    with pytest.raises(ValueError, match="damaged"):
        RunInfo.read(path)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"is not a run folder: it has no run\.json; make one with"):
        RunInfo.read(path)
    with pytest.raises(FileNotFoundError, match="There is no folder nowhere; give the folder that cgmcr2 cluster or"):
        RunInfo.read(Path("nowhere") / "run.json")

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from cgmcr2.runs import RunInfo

INFO = RunInfo(source="/photos", fitted_on={"part": "all rows", "rows": 3, "width": 2}, parameters={})


def test_run_json_round_trips(tmp_path: Path) -> None:
    INFO.write(tmp_path / "run.json")
    assert RunInfo.read(tmp_path / "run.json") == INFO
    assert "torch" in INFO.versions


def test_differences_name_the_parts_of_the_request_only() -> None:
    other = dataclasses.replace(INFO, source="/other", parameters={"n_clusters": 3}, finished=True, stability=0.5)
    assert INFO.differences(other) == ["source", "parameters"]


@pytest.mark.parametrize(
    "change", [{"format": 99}, {"format": None}, {"surprise": 1}], ids=["newer", "no-format", "unknown-key"]
)
def test_a_file_of_another_version_is_one_sentence(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps({**dataclasses.asdict(INFO), **change}))
    with pytest.raises(ValueError, match=r"run\.json is damaged or of another version"):
        RunInfo.read(path)
    path.write_text("{")
    with pytest.raises(ValueError, match="damaged"):
        RunInfo.read(path)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"is not a run folder: it has no run\.json; make one with"):
        RunInfo.read(path)

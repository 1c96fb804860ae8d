from __future__ import annotations

import json
from pathlib import Path

import pytest

from cgmcr2.training.log import MetricsFile, read_metrics
from cgmcr2.training.monitor import Record

RECORDS: list[Record] = [{"step": step, "loss": step / 7} for step in range(10)]


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, str]:
    """A metrics file of ten steps, and the digest of the first six."""
    path = tmp_path / "metrics.jsonl"
    metrics = MetricsFile(path, 0)
    metrics.append(RECORDS[:6])
    digest = metrics.digest
    metrics.append(RECORDS[6:])
    return path, digest


def test_resuming_drops_the_steps_that_are_repeated(written: tuple[Path, str]) -> None:
    path, digest = written
    metrics = MetricsFile(path, 6, digest)
    assert metrics.records == read_metrics(path) == RECORDS[:6]
    metrics.append(RECORDS[6:])
    assert read_metrics(path) == RECORDS
    MetricsFile(path, 10, metrics.digest)


@pytest.mark.parametrize("damage", ["gone", "missing step", "changed value", "cut", "not an object", "not text"])
def test_missing_or_changed_steps_are_one_sentence(written: tuple[Path, str], damage: str) -> None:
    path, digest = written
    lines = path.read_bytes().splitlines(keepends=True)
    if damage == "gone":
        path.unlink()
    else:
        lines[3] = {
            "missing step": b"",
            "changed value": json.dumps({"step": 3, "loss": 0.4}).encode() + b"\n",
            "cut": lines[3][:8],
            "not an object": b"3\n",
            "not text": b"\xff\n",
        }[damage]
        path.write_bytes(b"".join(lines))
    with pytest.raises(
        ValueError, match=r"missing or changed steps before step 6, .*; delete .*checkpoint.safetensors"
    ):
        MetricsFile(path, 6, digest)


def test_an_incomplete_last_line_is_ignored(written: tuple[Path, str]) -> None:
    path, _ = written
    path.write_bytes(path.read_bytes()[:-5])
    assert read_metrics(path) == RECORDS[:9]

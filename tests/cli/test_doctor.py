"""doctor as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cgmcr2.cli import doctor, run
from cgmcr2.features import FeatureStore


def test_versions_device_and_extras(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(doctor.EXTRAS, "onnx", ("package_that_does_not_exist",))
    assert run("doctor") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("cgmcr2 0.")
    assert "torch 2." in lines[1]
    assert lines[2].startswith("device ")
    assert "[onnx] package_that_does_not_exist missing: pip install 'cgmcr2[onnx]'" in lines


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("doctor", "--json") == 0
    values = json.loads(capsys.readouterr().out)
    assert values["threads"] >= 1
    assert values["missing"].keys() == doctor.EXTRAS.keys()


def test_extras_are_those_of_the_package() -> None:
    from importlib import metadata

    extras = set(metadata.metadata("cgmcr2").get_all("Provides-Extra") or [])
    assert doctor.EXTRAS.keys() == extras - {"dev", "docs"}


def test_compact(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "store"
    FeatureStore.create(path, np.eye(4, dtype=np.float32)).append(np.ones((1, 4), np.float32))
    assert run("doctor", path, "--compact", "--json") == 0
    assert json.loads(capsys.readouterr().out)["freed_bytes"] > 100
    assert len(list(path.glob("*.npy"))) == 1
    assert run("doctor", path, "--compact") == 0
    assert "0.0 MB were freed" in capsys.readouterr().out


def test_compact_needs_a_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("doctor", "--compact") == 2
    assert "--compact needs a feature store or a run folder" in capsys.readouterr().err

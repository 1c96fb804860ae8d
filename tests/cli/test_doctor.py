"""doctor as a user types it."""

from __future__ import annotations

import json

import pytest

from cgmcr2.cli import doctor, run


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

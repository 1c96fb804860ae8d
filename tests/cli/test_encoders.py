"""encoders as a user types it."""

from __future__ import annotations

import json

import pytest

from cgmcr2.cli import run
from cgmcr2.encoders import EncoderInfo, registry


def test_the_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    infos = [
        EncoderInfo("bundled", "a small network", 1280, True, ""),
        EncoderInfo("onnx:FILE", "any other", None, False, "pip install 'cgmcr2[onnx]'"),
        EncoderInfo("other", "one more", 7, False, "pip install 'cgmcr2[onnx]'", reads_text=True),
    ]
    monkeypatch.setattr("cgmcr2.encoders.list_encoders", lambda: infos)
    assert run("encoders") == 0
    assert capsys.readouterr().out.splitlines() == [
        "NAME       FEATURES  READS TEXT  AVAILABLE  DESCRIPTION",
        "bundled    1280      no          yes        a small network",
        "onnx:FILE            no          no         any other",
        "other      7         yes         no         one more",
        "",
        "onnx:FILE, other: pip install 'cgmcr2[onnx]'.",
    ]


def test_json_has_every_encoder(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("encoders", "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed[0].keys() == {"name", "description", "dim", "available", "hint", "reads_text"}
    assert (listed[0]["name"], listed[0]["dim"], listed[0]["available"]) == ("bundled", 1280, True)
    assert len(listed) >= len(registry._BUILT_IN)
    assert {info["name"] for info in listed if info["reads_text"]} >= {"clip-vit-b-32", "siglip"}

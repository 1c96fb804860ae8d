"""The choices of the options are those of the library."""

from __future__ import annotations

from typing import Any, Literal, get_args

import pytest

from cgmcr2 import _device
from cgmcr2.cli import choices
from cgmcr2.clustering import export
from cgmcr2.features.extract import Engine
from cgmcr2.pretrain import registry
from cgmcr2.report import projection
from cgmcr2.training import presets


@pytest.mark.parametrize(
    ("option", "library"),
    [
        (choices.Preset, presets.Preset),
        (choices.Precision, _device.Precision),
        (choices.ExportFormat, Literal[export.Kind, "onnx"]),
        (choices.Link, export.Link),
        (choices.MapMethod, projection.Method),
        (choices.Engine, Engine),
        (choices.PretrainMethod, registry.MethodName),
    ],
)
def test_choices(option: Any, library: Any) -> None:
    assert get_args(option) == get_args(library)

from __future__ import annotations

import pytest
import torch

from cgmcr2 import _device
from cgmcr2._device import WIDE, autocast, choose_device, choose_precision

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("supported", "width", "expected"),
    [(True, 4096, torch.bfloat16), (True, 256, torch.float32), (False, 4096, torch.float32)],
)
def test_auto_is_float32_on_a_cpu_unless_bfloat16_pays(
    monkeypatch: pytest.MonkeyPatch, supported: bool, width: int, expected: torch.dtype
) -> None:
    monkeypatch.setattr(_device, "supports_bfloat16", lambda device: supported)
    monkeypatch.setattr(_device, "WIDE", 4096)
    assert choose_precision("auto", CPU, width) == expected


def test_a_given_precision_is_used_whatever_the_width() -> None:
    assert choose_precision("bfloat16", CPU, 8) == torch.bfloat16
    assert choose_precision("float32", CPU, 2 * WIDE) == torch.float32
    with pytest.raises(ValueError, match="precision must be one of 'auto', 'float32', 'bfloat16', but is 'half'"):
        choose_precision("half", CPU, 8)


def test_autocast_applies_to_products_only_in_bfloat16() -> None:
    X = torch.eye(2)
    with autocast(CPU, torch.bfloat16):
        assert (X @ X).dtype == torch.bfloat16
    with autocast(CPU, torch.float32):
        assert (X @ X).dtype == torch.float32


def test_an_unusable_device_is_one_sentence() -> None:
    assert choose_device("cpu") == CPU
    with pytest.raises(ValueError, match="The device 'gpu' cannot be used on this machine; use 'auto' or 'cpu'"):
        choose_device("gpu")

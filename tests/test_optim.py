"""The optimizers against torch's, bit for bit, and the imports that they avoid."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from cgmcr2 import _optim


def trained(optimizer: type[torch.optim.Optimizer], *, skip: bool = False, **options: Any) -> list[torch.Tensor]:
    """Weights after five steps; ``skip`` marks the gradient of the third as not finite, as training does."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2))
    groups = [
        {"params": list(network[0].parameters()), "lr": 0.1},
        {"params": list(network[1].parameters()), "lr": 0.01},
    ]
    optim = optimizer(groups, **options)
    for step in range(5):
        optim.zero_grad(set_to_none=True)
        network(torch.randn(3, 4)).square().sum().backward()
        if skip:
            optim.found_inf = torch.tensor(float(step == 2))  # type: ignore[attr-defined]
        optim.step()
    return [parameter.detach().clone() for parameter in network.parameters()]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("Adam", {"weight_decay": 0.01}),
        ("Adam", {"weight_decay": 0.01, "fused": True, "skip": True}),
        ("AdamW", {"weight_decay": 0.1, "betas": (0.9, 0.99)}),
        ("SGD", {"weight_decay": 0.01, "momentum": 0.9, "lr": 0.1}),
    ],
    ids=["Adam", "fused Adam", "AdamW", "SGD"],
)
def test_equal_to_torch(name: str, options: dict[str, Any]) -> None:
    ours = trained(getattr(_optim, name), **options)
    theirs = trained(getattr(torch.optim, name), **options)
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert not torch.equal(ours[0], trained(getattr(_optim, name), **options | {"weight_decay": 0.5})[0])


def test_state_is_saved_and_restored() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    optim = _optim.Adam([weight])
    weight.sum().backward()
    optim.step()
    other = _optim.Adam([weight])
    other.load_state_dict(optim.state_dict())
    assert torch.equal(other.state[weight]["exp_avg"], optim.state[weight]["exp_avg"])
    assert isinstance(optim, torch.optim.Adam)


CLUSTER = """
import numpy as np
from cgmcr2 import CgMCR2
from cgmcr2.cli.program import run
CgMCR2(2, settings={"warmup_epochs": 1, "finetune_epochs": 1}).fit(np.eye(12, 6))
assert run("cluster", "images", "-k", "2", "-o", "run") == 0
"""
BASELINES = """
import numpy as np
from cgmcr2.baselines import MLC, PRODSC, SCAN, TEMI, TURTLE
X = np.random.default_rng(0).normal(size=(40, 8)).astype("float32")
for model in (SCAN, TEMI, MLC, PRODSC):
    model(2, max_steps=1).fit(X)
TURTLE(2, max_steps=1).fit(X)
"""


@pytest.mark.parametrize("script", [CLUSTER, BASELINES], ids=["cluster", "baselines"])
def test_fits_do_not_import_dynamo(script: str, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for i in range(6):
        Image.new("RGB", (32, 32), (40 * i, 90, 255 - 40 * i)).save(tmp_path / "images" / f"{i}.png")
    check = "import sys; print('torch' in sys.modules, 'torch._dynamo' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", f"{script}\n{check}"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines()[-1:] == ["True False"], done.stderr

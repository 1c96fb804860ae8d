from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from cgmcr2.pretrain.method import Batch
from cgmcr2.pretrain.moco_v2 import MocoV2, info_nce
from cgmcr2.pretrain.registry import resolve

from .conftest import Small


def unit(n: int, d: int, seed: int) -> torch.Tensor:
    return F.normalize(torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64), dim=1)


def test_info_nce_by_brute_force() -> None:
    q, k, queue, tau = unit(5, 4, 0), unit(5, 4, 1), unit(7, 4, 2), 0.3
    expected = 0.0
    for i in range(5):
        positive = np.exp(float(q[i] @ k[i]) / tau)
        negatives = sum(np.exp(float(q[i] @ queue[j]) / tau) for j in range(7))
        expected -= np.log(positive / (positive + negatives)) / 5
    assert float(info_nce(q, k, queue, tau)) == pytest.approx(expected, rel=1e-12)


def test_gradient_of_info_nce() -> None:
    k, queue = unit(3, 4, 1), unit(6, 4, 2)
    assert torch.autograd.gradcheck(lambda q: info_nce(q, k, queue, 0.5), unit(3, 4, 0).requires_grad_())


def views(n: int, seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, 3, 16, 16, generator=generator) for _ in range(2)]


@pytest.mark.parametrize("symmetric", [False, True])
def test_loss_and_updates_by_hand(symmetric: bool) -> None:
    torch.manual_seed(0)
    method = MocoV2(Small(), 8, 100, dim=4, queue=10, momentum=0.75, temperature=0.2, symmetric=symmetric).train()
    x, batch = views(3), Batch(np.arange(3), step=1)
    queue, before = method.queue.clone(), copy.deepcopy(method)
    loss = method.loss(x, batch)

    pairs = [(x[0], x[1]), (x[1], x[0])][: 1 + symmetric]
    queries = [F.normalize(before.head(before.backbone(q)), dim=1) for q, _ in pairs]
    keys = [F.normalize(before.key_head(before.key_backbone(k)), dim=1) for _, k in pairs]
    expected = sum(info_nce(q, k, queue, 0.2) for q, k in zip(queries, keys, strict=True)) / len(pairs)
    torch.testing.assert_close(loss.terms["contrast"], expected)
    torch.testing.assert_close(method.queue, queue)  # a skipped step leaves the queue alone

    with torch.no_grad():
        for parameter in method.backbone.parameters():
            parameter += 1
    method.after_step(batch)
    n = len(torch.cat(keys))
    torch.testing.assert_close(method.queue[:n], torch.cat(keys))
    torch.testing.assert_close(method.queue[n:], queue[n:])
    for name, tensor in method.key_backbone.state_dict().items():
        if tensor.is_floating_point():  # weights and running statistics
            old, new = before.key_backbone.state_dict()[name], method.backbone.state_dict()[name]
            torch.testing.assert_close(tensor, 0.75 * old + 0.25 * new)
    assert all(not parameter.requires_grad for parameter in method.key_backbone.parameters())


def test_the_queue_holds_the_latest_keys() -> None:
    torch.manual_seed(0)
    method = MocoV2(Small(), 8, 100, dim=4, queue=7, momentum=0.9).train()
    seen = []
    for step in range(1, 5):
        method.loss(views(3, seed=step), batch := Batch(np.arange(3), step))
        seen.append(method._keys.clone())  # type: ignore[union-attr]
        method.after_step(batch)
    latest = torch.cat(seen)[-7:]
    assert int(method.position) == 12 % 7
    order = [(5 + i) % 7 for i in range(7)]
    torch.testing.assert_close(method.queue[order], latest)
    assert len(MocoV2(Small(), 8, 5).queue) == 5  # one key per image


def test_the_first_batch_sets_the_running_statistics() -> None:
    torch.manual_seed(0)
    method = MocoV2(Small(), 8, 100).train()
    x = views(6)
    method.loss(x, Batch(np.arange(6), step=0))
    pixels = method.backbone.conv(x[0]).detach()  # type: ignore[operator]
    torch.testing.assert_close(method.key_backbone.bn.running_mean, pixels.mean((0, 2, 3)))  # type: ignore[union-attr]
    assert method.backbone.bn.momentum == 0.1  # type: ignore[union-attr]


def test_a_key_does_not_depend_on_the_other_images_of_its_batch() -> None:
    """What shuffled BatchNorm is for."""
    torch.manual_seed(0)
    method = MocoV2(Small(), 8, 100).train()
    x = views(6)
    method.loss(x, Batch(np.arange(6), step=1))
    together = method._keys
    method.loss([view[:2] for view in x], Batch(np.arange(2), step=1))
    torch.testing.assert_close(method._keys, together[:2])  # type: ignore[index]


@pytest.mark.parametrize(
    ("method", "options", "sentence"),
    [
        ("moco-v2", {"temperature": 0}, "temperature must be above 0, but is 0"),
        ("moco-v2", {"momentum": 1}, "momentum must be below 1, but is 1"),
        ("simclr-tcr", {"pull": -1}, "pull must be at least 0, but is -1"),
        ("cc", {"n_clusters": 0}, "n_clusters must be above 0, but is 0"),
        ("gcc", {"every": 0}, "every must be above 0, but is 0"),
        ("gcc", {"decay": 1}, "decay must be below 1, but is 1"),
        ("gcc", {"epochs": 10.5}, r"pretext_epochs, 10 \(at least 1\), but epochs is 10.5; give more epochs"),
        ("gcc", {"epochs": 1, "pretext_epochs": 0}, "but epochs is 1; give more epochs"),
        ("imc-swav", {"prototypes": 0}, "prototypes must be above 0, but is 0"),
        ("imc-swav", {"temperature": float("nan")}, "temperature must be above 0, but is nan"),
    ],
)
def test_wrong_options(method: str, options: dict[str, float], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        resolve(method, options)

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cgmcr2.consensus.stability import Calibration, calibrate, matched, temperature_for

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def groups() -> tuple[Array, Array]:
    """Four groups that any method finds, and which is which."""
    random = np.random.default_rng(1)
    y = random.integers(4, size=400)
    return (np.eye(12)[y] * 3 + random.standard_normal((400, 12)) * 0.3).astype(np.float32), y


def head(labels: Array, X: Array) -> Any:
    """A head that is as good as certain of these labels; it knows rows by their first feature."""
    order = np.argsort(X[:, 0])
    return lambda rows: 20 * torch.eye(4)[torch.from_numpy(labels[order[np.searchsorted(X[order, 0], rows[:, 0])]])]


def test_what_other_partitions_bear_out_may_be_sure(groups: tuple[Array, Array]) -> None:
    X, y = groups
    assert calibrate(X, head((y + 1) % 4, X), 4).agreement > 0.9  # numbers of clusters mean nothing


def test_wrong_labels_lose_as_much_confidence_as_they_are_wrong(groups: tuple[Array, Array]) -> None:
    X, y = groups
    random = np.random.default_rng(0)
    wrong = np.where(random.random(400) < 0.4, random.integers(4, size=400), y)  # 30 % of them
    found = calibrate(X, head(wrong, X), 4)
    right = calibrate(X, head(y, X), 4)
    assert found.agreement == pytest.approx(0.7 * right.agreement, abs=0.08)
    mean = (head(wrong, X)(X) / found.temperature).softmax(1).amax(1).mean().item()
    assert mean == pytest.approx(found.agreement, abs=1e-3)


def test_matching_is_one_to_one_and_the_best_of_all() -> None:
    random = np.random.default_rng(0)
    partition, labels = random.integers(4, size=50), random.integers(4, size=50)
    found = matched(partition, labels, 4)
    assert len({(int(a), int(b)) for a, b in zip(partition, found, strict=True)}) == 4
    from itertools import permutations

    best = max((np.array(order)[partition] == labels).mean() for order in permutations(range(4)))
    assert (found == labels).mean() == best


@pytest.mark.parametrize("confidence", [0.3, 0.6, 0.99])
def test_the_temperature_gives_the_confidence_asked_for(confidence: float) -> None:
    logits = torch.from_numpy(np.random.default_rng(0).standard_normal((200, 5))) * 7
    T = temperature_for(logits, confidence)
    assert (logits / T).softmax(1).amax(1).mean().item() == pytest.approx(confidence, abs=1e-4)


def test_what_cannot_be_judged_is_left_as_it_is() -> None:
    X = np.ones((3, 2), dtype=np.float32)
    assert calibrate(X, lambda rows: torch.zeros(len(rows), 2), 2) == Calibration(1.0, 1.0)
    assert calibrate(np.ones((9, 2), dtype=np.float32), lambda rows: torch.zeros(len(rows), 1), 1) == Calibration()

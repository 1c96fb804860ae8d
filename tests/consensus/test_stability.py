from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cgmcr2.consensus.stability import Calibration, calibrate, stability_rows, temperature_for

Array = np.ndarray[Any, Any]


def certain(labels: Array) -> torch.Tensor:
    """Logits that are nearly certain of ``labels``."""
    return 20 * torch.eye(4)[torch.from_numpy(labels)]


def test_correct_labels_are_stable_whatever_their_numbers(groups: tuple[Array, Array]) -> None:
    X, y = groups
    assert calibrate(X, certain((y + 1) % 4), 4).stability > 0.9


def test_wrong_labels_lower_stability_and_confidence(groups: tuple[Array, Array]) -> None:
    X, y = groups
    rng = np.random.default_rng(0)
    wrong = np.where(rng.random(400) < 0.4, rng.integers(4, size=400), y)  # 30 % are wrong
    calibration = calibrate(X, certain(wrong), 4)
    assert calibration.stability == pytest.approx(0.7 * calibrate(X, certain(y), 4).stability, abs=0.08)
    confidence = (certain(wrong) / calibration.temperature).softmax(1).amax(1).mean().item()
    assert confidence == pytest.approx(calibration.stability, abs=1e-3)


def test_a_guided_head_is_as_confident_as_its_neighbours_are_right(groups: tuple[Array, Array]) -> None:
    X, y = groups
    rng = np.random.default_rng(0)
    noise = torch.from_numpy(rng.standard_normal((400, 4))).float()
    confidence = []
    for share in (0.0, 0.4):
        labels = np.where(rng.random(400) < share, rng.integers(4, size=400), y)
        logits = certain(labels) + noise
        T = calibrate(X, logits, 4, guided=True).temperature
        confidence.append((logits / T).softmax(1).amax(1).mean().item())
    assert confidence[0] > 0.95  # neighbours agree with the labels, whatever single k-means partitions do
    assert 0.5 < confidence[1] < 0.9  # 30 % of the labels are wrong


@pytest.mark.parametrize("confidence", [0.3, 0.6, 0.99])
def test_the_temperature_gives_the_requested_confidence(confidence: float) -> None:
    logits = torch.from_numpy(np.random.default_rng(0).standard_normal((200, 5))) * 7
    T = temperature_for(logits, confidence)
    assert (logits / T).softmax(1).amax(1).mean().item() == pytest.approx(confidence, abs=1e-4)


@pytest.mark.parametrize(("confidence", "temperature"), [(1.5, 1e-3), (0.1, 1e4)])
def test_an_unreachable_confidence_gives_the_nearest_temperature(confidence: float, temperature: float) -> None:
    logits = torch.from_numpy(np.random.default_rng(0).standard_normal((200, 5)))
    assert temperature_for(logits, confidence) == temperature


def test_too_few_rows_or_clusters_leave_the_logits_unchanged() -> None:
    X = np.ones((9, 2), dtype=np.float32)
    assert calibrate(X[:3], torch.zeros(3, 2), 2) == Calibration(1.0, 1.0)
    assert calibrate(X, torch.zeros(9, 1), 1) == Calibration()


def test_large_data_is_sampled() -> None:
    assert len(stability_rows(100_000, 10)) == 3_000
    assert len(stability_rows(100_000, 1_000)) == 20_000
    assert len(stability_rows(50, 10)) == 50

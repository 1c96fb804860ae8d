from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from cgmcr2.consensus.stability import WALK_STEPS, Calibration, calibrate, stability_rows, temperature_for
from cgmcr2.consensus.views import COMPONENTS, linear_views, smoothed_views

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


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_a_guided_head_is_as_confident_as_its_neighbours_are_right(groups: tuple[Array, Array], share: float) -> None:
    X, y = groups
    rng = np.random.default_rng(0)
    labels = np.where(rng.random(400) < share, rng.integers(4, size=400), y)
    logits = certain(labels) + torch.from_numpy(rng.standard_normal((400, 4))).float()
    first, second = (J[:, 0] for J in smoothed_views(X, WALK_STEPS, 0)[0])
    prediction = (logits[first] + logits[second]) / 2
    T = calibrate(X, logits, 4, guided=True).temperature
    right = (prediction.argmax(1) == logits.argmax(1)).float().mean().item()
    assert (prediction / T).softmax(1).amax(1).mean().item() == pytest.approx(right, abs=0.005)
    assert (right > 0.95) == (share == 0)


@pytest.mark.parametrize("confidence", [0.3, 0.6, 0.99])
def test_the_temperature_gives_the_requested_confidence(confidence: float) -> None:
    logits = torch.from_numpy(np.random.default_rng(0).standard_normal((200, 5))) * 7
    T = temperature_for(logits, confidence)
    assert (logits / T).softmax(1).amax(1).mean().item() == pytest.approx(confidence, abs=1e-4)


@pytest.mark.parametrize(("confidence", "temperature"), [(1.5, 1e-3), (0.1, 1e4)])
def test_an_unreachable_confidence_gives_the_nearest_temperature(confidence: float, temperature: float) -> None:
    logits = torch.from_numpy(np.random.default_rng(0).standard_normal((200, 5)))
    assert temperature_for(logits, confidence) == temperature


def test_views_of_the_training_are_used(groups: tuple[Array, Array]) -> None:
    X, y = groups
    views = linear_views(X, COMPONENTS, 0)
    assert calibrate(X, certain(y), 4, views=views) == calibrate(X, certain(y), 4)
    blind = dataclasses.replace(views, standard=0 * views.standard, white=0 * views.white)
    assert calibrate(X, certain(y), 4, views=blind).stability < 0.5 < calibrate(X, certain(y), 4).stability


def test_too_few_rows_or_clusters_leave_the_logits_unchanged() -> None:
    X = np.ones((9, 2), dtype=np.float32)
    assert calibrate(X[:3], torch.zeros(3, 2), 2) == Calibration(1.0, 1.0)
    assert calibrate(X, torch.zeros(9, 1), 1) == Calibration()


def test_large_data_is_sampled() -> None:
    assert len(stability_rows(100_000, 10)) == 3_000
    assert len(stability_rows(100_000, 1_000)) == 20_000
    assert len(stability_rows(50, 10)) == 50

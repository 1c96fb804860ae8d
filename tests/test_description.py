from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from cgmcr2 import CgMCR2
from cgmcr2.description import describe

QUICK = {"hidden_dim": 16, "warmup_epochs": 1, "finetune_epochs": 1}


X = load_digits().data[:600].astype(np.float32)


@pytest.fixture(scope="module")
def fitted() -> CgMCR2:
    return CgMCR2(5, settings=QUICK, random_state=0).fit(X)


def test_known_labels_are_used_for_the_cluster_means(fitted: CgMCR2) -> None:
    rows = np.arange(600)
    options: dict[str, Any] = {"guided": True, "choice": None, "views": None}
    predicted = describe(fitted._model, X, rows, 0, **options).cluster_means
    assert torch.equal(predicted.means, describe(fitted._model, X, rows, 0, labels=fitted.labels_, **options)[1].means)
    shifted = describe(fitted._model, X, rows, 0, labels=(fitted.labels_ + 1) % 5, **options)[1].means
    assert torch.allclose(shifted, predicted.means.roll(1, dims=0), atol=1e-6)


def test_a_known_confidence_is_met(fitted: CgMCR2) -> None:
    rows = np.arange(600)
    model = fitted._model
    calibration = describe(model, X, rows, 0, guided=True, choice=None, views=None, confidence=0.7).calibration
    logits = model.forward(X)[1]
    assert (logits / calibration.temperature).softmax(1).amax(1).mean().item() == pytest.approx(0.7, abs=1e-3)


def test_a_narrow_projection_does_not_flatter_the_clusters() -> None:
    model = CgMCR2(10, settings={"projection": 1}, random_state=0).fit(X)
    assert model.calibration_.stability < 0.6

"""CgMCR2 on several feature spaces of the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from cgmcr2 import CgMCR2
from cgmcr2.evaluation import clustering_accuracy

Spaces = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[np.int64]]


@pytest.fixture(scope="module")
def spaces() -> Spaces:
    """Two spaces of different scale that each separate three of six groups, and the groups."""
    rng = np.random.default_rng(0)
    y = np.arange(300) % 6
    first = 3 * np.eye(8)[y // 2] + 0.4 * rng.standard_normal((300, 8))
    second = 100 * (3 * np.eye(5)[y % 2] + 0.4 * rng.standard_normal((300, 5)))
    return first, second, y


@pytest.fixture(scope="module")
def fitted(spaces: Spaces) -> CgMCR2:
    return CgMCR2(6).fit(spaces[:2])


def test_groups_that_only_both_spaces_tell_apart_are_found(spaces: Spaces, fitted: CgMCR2) -> None:
    first, _, y = spaces
    assert clustering_accuracy(y, fitted.labels_) > 0.95
    assert clustering_accuracy(y, CgMCR2(6).fit_predict(first)) < 0.8
    assert fitted.n_features_in_ == 13


def test_predict_accepts_a_list_or_one_matrix(spaces: Spaces, fitted: CgMCR2) -> None:
    first, second, _ = spaces
    for X in ([first, second], (pd.DataFrame(first), second), np.concatenate([first, second], axis=1)):
        assert np.array_equal(fitted.predict(X), fitted.labels_)
    assert fitted.transform([first[:7], second[:7]]).shape == (7, 13)


def test_the_scale_of_a_space_does_not_matter(spaces: Spaces, fitted: CgMCR2) -> None:
    first, second, _ = spaces
    assert np.array_equal(fitted.predict([1e3 * first, second]), fitted.labels_)


def test_save_and_load(spaces: Spaces, fitted: CgMCR2, tmp_path: Path) -> None:
    fitted.save(tmp_path)
    assert np.array_equal(CgMCR2.load(tmp_path).predict(spaces[:2]), fitted.labels_)


@pytest.mark.parametrize("preset", ["paper", "reference"])
def test_presets_without_a_projection(spaces: Spaces, preset: str) -> None:
    model = CgMCR2(6, preset=preset, settings={"hidden_dim": 16, "warmup_epochs": 1, "finetune_epochs": 1})
    labels = model.fit(spaces[:2]).labels_
    assert np.array_equal(model.predict([spaces[0], 5 * spaces[1]]), labels)


def test_a_space_of_noise_is_ignored() -> None:
    groups = np.arange(300) % 3
    X = 3 * np.eye(8)[groups] + 0.4 * np.random.default_rng(1).standard_normal((300, 8))
    noise = np.random.default_rng(2).standard_normal((300, 20))
    model = CgMCR2(3).fit([X, noise])
    assert clustering_accuracy(groups, model.labels_) > 0.97
    assert model.calibration_.stability > 0.95


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        pytest.param([0], "widths 8, but CgMCR2 was fitted on feature spaces of widths 8 and 5", id="missing"),
        pytest.param([1, 0], "widths 5 and 8, but CgMCR2 was fitted on feature spaces of widths 8 and 5", id="order"),
    ],
)
def test_other_spaces_are_one_sentence(spaces: Spaces, fitted: CgMCR2, parts: list[int], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        fitted.predict([spaces[part] for part in parts])


def test_spaces_of_different_length_are_one_sentence(spaces: Spaces) -> None:
    with pytest.raises(ValueError, match="have 300 and 10 rows; each must have one row per image, in the same order"):
        CgMCR2(6).fit([spaces[0], spaces[1][:10]])


def test_nan_in_one_space_is_refused(spaces: Spaces) -> None:
    broken = np.where(np.arange(5) == 2, np.nan, spaces[1])
    with pytest.raises(ValueError, match="NaN"):
        CgMCR2(6).fit([spaces[0], broken])

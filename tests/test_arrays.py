from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cgmcr2._arrays import float32_rows, unit_rows

X = np.random.default_rng(0).standard_normal((20, 6))


def test_ordinary_rows_are_neither_changed_nor_copied() -> None:
    ordinary = X.astype(np.float32)
    assert np.shares_memory(float32_rows(ordinary), ordinary)
    np.testing.assert_array_equal(float32_rows(X), X.astype(np.float32))


@pytest.mark.parametrize("exponent", [-1000, -200, -60, 60, 120, 1000])
def test_directions_survive_any_power_of_two(exponent: int) -> None:
    ordinary, scaled = (unit_rows(float32_rows(np.ldexp(X, shift))) for shift in (0, exponent))
    np.testing.assert_allclose(scaled, ordinary, rtol=1e-6)


@pytest.mark.parametrize("factor", [1e37, 1e30, 1e-30, 1e-42])
def test_float32_rows_keep_their_directions_and_the_input_stays_unchanged(factor: float) -> None:
    extreme = (X / 4 * factor).astype(np.float32)
    before = extreme.copy()
    tolerance = 1e-2 if factor == 1e-42 else 1e-5  # subnormal numbers have few digits
    np.testing.assert_allclose(unit_rows(float32_rows(extreme)), unit_rows(X), atol=tolerance)
    np.testing.assert_array_equal(extreme, before)


def test_only_extreme_rows_are_scaled_and_zero_rows_stay_zero() -> None:
    mixed = X.copy()
    mixed[3] *= 1e200
    mixed[5] = 0
    result = float32_rows(mixed)
    np.testing.assert_array_equal(np.delete(result, 3, axis=0), np.delete(mixed, 3, axis=0).astype(np.float32))
    assert 0.5 <= np.abs(result[3]).max() < 1


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_remain(value: float) -> None:
    damaged = X * 1e200
    damaged[2, 1] = value
    assert not np.isfinite(float32_rows(damaged)[2]).all()
    assert np.isfinite(np.delete(float32_rows(damaged), 2, axis=0)).all()


@pytest.mark.parametrize("array", [np.arange(6), np.zeros((0, 3)), np.zeros((3, 0)), np.eye(3, dtype=bool)])
def test_other_shapes_and_types_are_converted(array: np.ndarray[Any, Any]) -> None:
    result = float32_rows(array)
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, array)


def test_large_integers_are_scaled() -> None:
    integers = (X * 1e18).astype(np.int64)
    np.testing.assert_allclose(unit_rows(float32_rows(integers)), unit_rows(X), atol=1e-6)

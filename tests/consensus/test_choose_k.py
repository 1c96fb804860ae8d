from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from cgmcr2.consensus.choose_k import (
    Choice,
    ChoiceRequest,
    ChooseKConfig,
    candidate_grid,
    choose_k,
    decide,
    read_choice,
    write_choice,
)
from cgmcr2.consensus.criteria import eigengaps, standardized_excess
from cgmcr2.consensus.views import smoothed_views

Array = np.ndarray[Any, Any]


def groups(k: int, n: int = 300) -> Array:
    random = np.random.default_rng(k)
    y = np.arange(n) % k
    return (np.eye(16)[y] * 3 + random.standard_normal((n, 16)) * 0.5).astype(np.float32)


@pytest.mark.parametrize("k", [2, 4, 7])
def test_clear_groups_are_counted(k: int) -> None:
    found = choose_k(groups(k), most=14)
    assert (found.chosen, found.clear) == (k, True), found.verdict


def test_data_without_groups_has_no_clear_answer() -> None:
    found = choose_k(np.random.default_rng(0).standard_normal((400, 32)).astype(np.float32), most=12)
    assert not found.clear
    assert found.noise
    assert found.verdict.startswith("No groups were found")


def test_the_same_seed_gives_the_same_choice_from_a_sample() -> None:
    X, sampled = groups(4, 500), ChooseKConfig(rows=200)
    assert choose_k(X, most=8, seed=3, config=sampled) == choose_k(X, most=8, seed=3, config=sampled)
    assert choose_k(X, most=8, config=sampled).chosen == 4


def test_runners_up_are_other_peaks_and_not_neighbours() -> None:
    found = decide([4, 5, 6, 9, 10, 20, 40, 80], [0.2, 0.9, 0.3, 0.7, 0.6, 0.5, 0.75, 0.1])
    assert (found.chosen, found.runners_up, found.clear) == (5, (40, 9), True)


@pytest.mark.parametrize(
    ("scores", "sentence"),
    [
        ([0.80, 0.5, 0.81], "8 clusters fit best, but 2 fit about as well"),
        ([0.3, 0.8, 0.5], "3 clusters fit best."),
    ],
)
def test_the_verdict_says_how_clear_it_is(scores: list[float], sentence: str) -> None:
    found = decide([2, 3, 8], scores)
    assert sentence in found.verdict
    assert found.clear == ("No clear answer" not in found.verdict)


def test_a_choice_survives_json() -> None:
    found = decide([2, 3, 8], [0.3, 0.8, 0.5])
    assert Choice.from_dict(json.loads(json.dumps(dataclasses.asdict(found)))) == found


def test_a_choice_is_reused_for_the_same_rows_seed_and_range_only(tmp_path: Path) -> None:
    choice = decide([2, 3, 8], [0.3, 0.8, 0.5])
    request = ChoiceRequest("digest", seed=0, most=9)
    write_choice(tmp_path, choice, request)
    assert read_choice(tmp_path, request) == choice
    for other in (ChoiceRequest("other", 0, 9), ChoiceRequest("digest", 1, 9), ChoiceRequest("digest", 0)):
        assert read_choice(tmp_path, other) is None
    (tmp_path / "choice.json").write_text("{")
    assert read_choice(tmp_path, request) is None


def test_lanczos_gives_the_same_gaps_as_the_dense_solver() -> None:
    X = groups(5, 700)
    neighbours, _ = smoothed_views(X, (1,), 0)
    quick = eigengaps(neighbours, 20)
    exact = eigengaps(neighbours, 350)[:21]  # too many for Lanczos
    np.testing.assert_allclose(quick, exact, atol=0.02)
    assert quick[2:].argmax() + 2 == 5


def test_candidates_are_few_and_bounded_by_the_number_of_rows() -> None:
    assert candidate_grid(10_000, None)[:11] == list(range(2, 13))
    assert 260 < candidate_grid(10_000, None)[-1] <= 300
    assert candidate_grid(40, None)[-1] == 8
    assert candidate_grid(5, None) == [2]
    assert candidate_grid(100, 7) == [2, 3, 4, 5, 6, 7]


def test_invalid_input_is_one_sentence() -> None:
    with pytest.raises(ValueError, match="must be at least 2, but is 1"):
        choose_k(groups(3), most=1)


def noise(kind: str, n: int, D: int, seed: int) -> Array:
    """Rows without groups."""
    rng = np.random.default_rng(seed)
    rows = {
        "gaussian": rng.standard_normal((n, D)),
        "decaying": rng.standard_normal((n, D)) / np.arange(1, D + 1),  # most unit rows are near two poles
        "uniform": rng.random((n, D)),
        "permuted": rng.permuted(load_digits().data[:n, 18 : 18 + D], axis=0),
    }
    return rows[kind].astype(np.float32)


@pytest.mark.parametrize("shape", [(60, 8), (100, 16)], ids=["60x8", "100x16"])
@pytest.mark.parametrize("kind", ["gaussian", "decaying", "uniform", "permuted"])
def test_noise_is_not_called_clear(kind: str, shape: tuple[int, int]) -> None:
    choice = choose_k(noise(kind, *shape, seed=0))
    assert not choice.clear, choice.verdict
    assert choice.noise
    assert choice.verdict.startswith("No groups were found")


@pytest.mark.parametrize("classes", [(0, 1, 4), (0, 2, 6, 7)], ids=["3 classes", "4 classes"])
def test_few_rows_of_real_classes_are_called_clear(classes: tuple[int, ...]) -> None:
    X, y = load_digits(return_X_y=True)
    choice = choose_k(X[np.isin(y, classes)][:80].astype(np.float32))
    assert choice.clear, choice.verdict
    assert abs(choice.chosen - len(classes)) <= 1


def test_the_verdict_names_the_agreement_on_random_data() -> None:
    verdict = choose_k(noise("gaussian", 60, 8, 0)).verdict
    assert re.search(
        r"not significantly better than they fit random data \(AMI of the two views 0\.\d\d, on random data 0\.\d\d\)",
        verdict,
    )


def test_the_excess_is_in_standard_deviations_of_a_share_of_k() -> None:
    rng = np.random.default_rng(0)
    for k, share in ((30, 0.3), (30, 0.7), (200, 0.1)):
        shares = rng.binomial(k, share, 20_000) / k
        excess = standardized_excess(shares, np.full(20_000, share), k)
        assert abs(excess.std() - 1) < 0.05
    assert standardized_excess(np.array([1.1, -0.1]), np.array([1.0, 0.0]), 5).tolist() == [0, 0]  # shares are clipped


def test_equal_rows_are_one_cluster() -> None:
    for n in (2, 3, 30):
        X = np.ones((n, 4), dtype=np.float32) * np.arange(1, n + 1)[:, None]  # rows are compared by direction
        choice = choose_k(X.astype(np.float32))
        assert (choice.chosen, choice.clear) == (1, True)
        assert "1 cluster" in choice.verdict


def test_copies_of_few_rows_are_one_cluster_each() -> None:
    choice = choose_k(np.eye(5, dtype=np.float32)[np.arange(30) % 3])
    assert (choice.chosen, choice.clear) == (3, True)
    assert choose_k(np.eye(5, dtype=np.float32)[np.arange(30) % 3], most=2).chosen == 2


@pytest.mark.parametrize("n", [2, 3])
def test_two_or_three_rows_are_too_few_for_a_clear_choice(n: int) -> None:
    choice = choose_k(np.eye(5, dtype=np.float32)[:n])
    assert (choice.chosen, choice.clear) == (2, False)
    assert f"{n} rows are too few" in choice.verdict


def test_tiny_sets_do_not_fail() -> None:
    assert choose_k(groups(2, 6)).chosen == 2
    assert choose_k(np.eye(4, dtype=np.float32)).chosen == 2


def test_the_largest_seed() -> None:
    assert choose_k(groups(3), most=6, seed=2**32 - 1).chosen == 3

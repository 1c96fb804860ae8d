from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from cgmcr2.model import ClusterMeans, load_cluster_means, save_cluster_means


@pytest.fixture
def rows() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(100) % 2
    return F.normalize(5 * torch.eye(4)[labels] + 0.3 * torch.randn(100, 4, generator=generator), dim=1)


def test_scores_are_ranks_of_the_distance_to_the_nearest_mean(rows: torch.Tensor) -> None:
    labels = torch.arange(100) % 2
    rows[7] = torch.tensor([0.0, 0, 0, 1])
    means = ClusterMeans.of(rows, labels, 2)
    expected = torch.stack([F.normalize(rows[labels == c].sum(0), dim=0) for c in range(2)])
    torch.testing.assert_close(means.means, expected)
    scores = means.outlier_scores(rows)
    assert scores.argmax() == 7
    assert scores[7] == pytest.approx(0.99)  # 99 of 100 rows are nearer
    assert sorted(scores.tolist()) == pytest.approx([i / 100 for i in range(100)], abs=0.02)
    assert means.outlier_scores(torch.tensor([[-0.6, -0.8, 0, 0]])).item() == 1  # unlike every fitted row


def test_equal_rows_are_not_unusual() -> None:
    U = F.normalize(torch.ones(5, 3), dim=1)
    assert ClusterMeans.of(U, torch.zeros(5, dtype=torch.long), 1).outlier_scores(U).tolist() == [0] * 5


def test_an_empty_cluster_is_never_the_nearest(rows: torch.Tensor) -> None:
    labels = torch.arange(100) % 2
    two, three = ClusterMeans.of(rows, labels, 2), ClusterMeans.of(rows, labels, 3)
    assert torch.equal(two.outlier_scores(rows), three.outlier_scores(rows))


def test_many_rows_are_summarised_by_quantiles() -> None:
    U = F.normalize(torch.randn(5_000, 3, generator=torch.Generator().manual_seed(0)), dim=1)
    means = ClusterMeans.of(U, torch.zeros(5_000, dtype=torch.long), 1)
    assert means.distances.shape == (1_000,)
    exact = means.nearest(U).argsort().argsort() / 5_000
    assert (means.outlier_scores(U) - exact).abs().max() < 0.002


def test_round_trip(rows: torch.Tensor, tmp_path: Path) -> None:
    means = ClusterMeans.of(rows, torch.arange(100) % 2, 2)
    save_cluster_means(tmp_path, means)
    assert torch.equal(load_cluster_means(tmp_path, 4).outlier_scores(rows), means.outlier_scores(rows))


def test_a_damaged_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "cluster_means.safetensors").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"cluster_means\.safetensors cannot be read \(.*\); restore the file"):
        load_cluster_means(tmp_path, 4)

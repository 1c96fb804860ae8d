from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from cgmcr2._arrays import unit_rows
from cgmcr2.clustering import Clustering
from cgmcr2.clustering.geometry import cluster_energy, second_moment, summarize_clusters


def test_no_rows() -> None:
    assert len(cluster_energy(np.empty((0, 2)), np.empty(0, dtype=np.int64))) == 0
    assert summarize_clusters(Clustering([], [])) == []


def test_clusters_csv_has_size_cohesion_and_confusion(tmp_path: Path) -> None:
    c = Clustering(
        ["a", "b", "c", "d"],
        [0, 0, 2, 2],
        probabilities=[[0.6, 0, 0.4], [0.8, 0, 0.2], [0, 0.005, 0.995], [0, 0.005, 0.995]],
        embedding=[[1, 0], [-1, 0], [1, 0], [0, 1]],
        names=["cats", "none", "dogs"],
    )
    c.save(tmp_path)
    with (tmp_path / "clusters.csv").open(newline="") as file:
        cats, dogs = csv.DictReader(file)
    assert (cats["cluster"], cats["name"], cats["size"]) == ("0", "cats", "2")
    assert (float(cats["confidence"]), float(cats["cohesion"])) == (0.7, 1.0)
    assert (cats["confused_with"], float(cats["confusion"])) == ("2", 0.3)
    assert float(dogs["cohesion"]) == pytest.approx(0.7071)
    assert (dogs["confused_with"], float(dogs["confusion"])) == ("", 0.0)


def test_missing_values_are_none() -> None:
    (summary,) = summarize_clusters(Clustering(["a"], [0]))
    assert (summary.cohesion, summary.confused_with) == (None, None)


def test_the_mean_energy_of_a_cluster_is_the_squared_norm_of_its_moment() -> None:
    rng = np.random.default_rng(0)
    Z, labels = unit_rows(rng.standard_normal((50, 4))), rng.integers(3, size=50)
    energy = cluster_energy(Z, labels)
    for cluster in range(3):
        C = second_moment(Z[labels == cluster])
        assert energy[labels == cluster].mean() == pytest.approx((C * C).sum())
        assert energy[labels == cluster] == pytest.approx([z @ C @ z for z in Z[labels == cluster]])

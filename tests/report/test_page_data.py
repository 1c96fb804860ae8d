"""Values of the page: key figures, galleries, settings, sampled rows."""

from __future__ import annotations

import numpy as np

from cgmcr2.clustering import Clustering
from cgmcr2.clustering.geometry import summarize_clusters
from cgmcr2.report.page_data import (
    cluster_data,
    headline,
    hierarchy_text,
    key_figures,
    listed_rows,
    row_data,
    settings_groups,
)

from .pages import clustering, unpack


def test_listed_rows_hold_the_thumbnails_and_a_sample() -> None:
    rows = listed_rows(1000, np.array([7, 999]), 50)
    assert len(set(rows)) == 50
    assert {7, 999} <= set(rows)
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(rows, listed_rows(1000, np.array([7, 999]), 50))


def test_key_figures() -> None:
    c = Clustering(
        list("abcde"), [0, 0, 0, 2, 2], confidence=[0.9, 0.8, 0.7, 0.6, 0.5], margin=[0.8, 0.09, 0.5, 0.1, 0]
    )
    figures = [(figure.value, figure.label) for figure in key_figures(c, "rows", 0.918)]
    assert figures == [
        ("92 %", "stability"),
        ("2 to 3", "rows per cluster"),
        ("70 %", "median confidence"),
        ("2", "uncertain rows"),
    ]
    assert key_figures(c)[0].label == "images per cluster"
    assert [figure.value for figure in key_figures(Clustering([], []))] == ["0"]


def test_runner_up_is_the_second_best_cluster() -> None:
    c = Clustering(["a", "b"], [0, 2], probabilities=[[0.6, 0.1, 0.3], [0.0, 0.2, 0.8]])
    data = row_data(c, np.array([1, 0]))
    assert data["ids"] == ["b", "a"]
    assert unpack(data["runner_up"]).tolist() == [1, 2]
    assert unpack(data["margin"]).tolist() == [6000, 3000]


def test_galleries_hold_all_members_on_the_page() -> None:
    c = clustering(30)
    listed = [row for row in range(30) if row % 4]
    page_index = np.full(len(c), -1)
    page_index[listed] = np.arange(len(listed))
    data = cluster_data(c, summarize_clusters(c), page_index)
    for cluster in range(3):
        members = c.sizes()[cluster]
        for kind, rows in (
            ("typical", c.representatives(cluster, members)),
            ("uncertain", c.uncertain(cluster, members)),
        ):
            assert [listed[index] for index in data[kind][cluster]] == [row for row in rows if row % 4]
    assert data["confused_with"] == [summary.confused_with for summary in summarize_clusters(c)]


def test_headline_agrees_in_number() -> None:
    assert headline(1, 1, "row") == "1 row in 1 cluster"
    assert headline(0, 0, "image") == "0 images in 0 clusters"


def test_hierarchy_needs_an_embedding_and_three_clusters() -> None:
    assert hierarchy_text(Clustering(list("abc"), [0, 1, 2])) == ""
    assert hierarchy_text(Clustering(list("ab"), [0, 1], embedding=np.eye(2))) == ""
    assert "Cluster 2" in hierarchy_text(Clustering(list("abc"), [0, 1, 2], embedding=np.eye(3)))


def test_settings_are_formatted() -> None:
    settings = {"a": None, "b": [], "c": list(range(14)), "d": 0.1, "e": {"f_g": {"h": False}}}
    numbers = ", ".join(map(str, range(12)))
    assert settings_groups(settings) == [
        ("", [("a", "none"), ("b", "none"), ("c", f"{numbers}, … (14 in total)"), ("d", "0.1")]),
        ("e · f g", [("h", "no")]),
    ]

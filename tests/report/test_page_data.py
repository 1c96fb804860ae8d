"""Values of the page: key figures, choice of k, settings, sampled rows."""

from __future__ import annotations

import numpy as np

from cgmcr2.clustering import Clustering
from cgmcr2.clustering.geometry import summarize_clusters
from cgmcr2.report.curves import HEIGHT, WIDTH
from cgmcr2.report.limits import PageLimits
from cgmcr2.report.page_data import (
    choice_chart,
    cluster_data,
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


def test_galleries_are_cut_to_the_selected_rows_unless_all_members_have_thumbnails() -> None:
    c = clustering(30)
    limits = PageLimits(typical=4, uncertain=2)
    page_index = {row: row for row in range(30)}
    complete = set(c.rows(0).tolist())
    data = cluster_data(c, summarize_clusters(c), page_index, complete | set(c.representatives(1, 3).tolist()), limits)
    assert sorted(data["typical"][0]) == sorted(complete)
    assert data["typical"][1] == c.representatives(1, 3).tolist()
    assert data["typical"][2] == []
    assert data["confused_with"] == [summary.confused_with for summary in summarize_clusters(c)]


def test_choice_chart() -> None:
    choice = {
        "candidates": [2, 3, 4, 8],
        "scores": [0.1, 0.9, 0.2, 0.5],
        "chosen": 3,
        "runners_up": [8],
        "verdict": "3 clusters fit best.",
    }
    chart = choice_chart(choice)
    assert chart is not None
    assert [k for _, _, k in chart["marks"]] == [3, 8]
    assert chart["marks"][0][1] == 0  # the best score is at the top
    assert chart["marks"][1] == (WIDTH, HEIGHT / 2, 8)
    assert choice_chart(None) is None


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

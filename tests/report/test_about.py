"""Values of the section "About": settings, hierarchy."""

from __future__ import annotations

import numpy as np

from cgmcr2.clustering import Clustering
from cgmcr2.report.about import about_values, hierarchy_text, settings_groups

from .pages import clustering


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


def test_about_without_a_run() -> None:
    values = about_values(clustering())
    assert [summary.cluster for summary in values["summaries"]] == [0, 1, 2]
    assert (values["curves"], values["choice"], values["settings"], values["errors"]) == ([], None, [], [])
    assert [figure["name"] for figure in values["similarities"]] == ["|ZZᵀ|", "|ΠΠᵀ|"]

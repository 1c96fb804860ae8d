"""Clusters and per-row values of the page."""

from __future__ import annotations

import numpy as np

from cgmcr2.clustering import Clustering
from cgmcr2.page.data import cluster_entries, headline, row_values

ARRAYS = ("labels", "runner_up", "confidence", "margin", "outlier", "typicality")


def clustering(n: int = 60, k: int = 3) -> Clustering:
    rng = np.random.default_rng(0)
    labels = np.arange(n) % k
    logits = 4 * np.eye(k)[labels] + rng.standard_normal((n, k))
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    embedding = np.eye(8)[labels] + 0.1 * rng.standard_normal((n, 8))
    ids = [f"{i}.png" for i in range(n)]
    return Clustering(ids, probabilities.argmax(1), embedding=embedding, probabilities=probabilities)


def unpack(content: bytes, n: int) -> dict[str, np.ndarray]:
    values = {name: np.frombuffer(content, "<u2", n, 2 * n * i) for i, name in enumerate(ARRAYS)}
    return values | {"locked": np.frombuffer(content, np.uint8, n, 12 * n)}


def test_runner_up_is_the_second_best_cluster() -> None:
    c = Clustering(["a", "b", "c"], [0, 2, 1], probabilities=[[0.6, 0.1, 0.3], [0.0, 0.2, 0.8], [0, 1, 0]]).lock([1])
    values = unpack(row_values(c, np.array([1, 0, 2])), 3)
    assert values["labels"].tolist() == [2, 0, 1]
    assert values["runner_up"].tolist() == [1, 2, 65535]  # no other cluster is possible for the last one
    assert values["margin"].tolist() == [6000, 3000, 10000]
    assert values["locked"].tolist() == [1, 0, 0]


def test_typicality_sorts_as_the_representatives() -> None:
    c = clustering()
    typicality = unpack(row_values(c), 60)["typicality"].astype(int)
    for cluster in range(3):
        rows = c.rows(cluster)
        assert rows[np.argsort(-typicality[rows])].tolist() == c.representatives(cluster, 60).tolist()


def test_entries_list_rows_of_the_page() -> None:
    c = clustering(30)
    listed = [row for row in range(30) if row % 4]
    page_index = np.full(len(c), -1)
    page_index[listed] = np.arange(len(listed))
    for entry in cluster_entries(c, page_index=page_index, typical=5, uncertain=3):
        cluster = entry["number"]
        typical = [row for row in c.representatives(cluster, 30) if row % 4]
        uncertain = [row for row in c.uncertain(cluster, 30) if row % 4]
        assert [listed[index] for index in entry["typical"]] == typical[:5]
        assert [listed[index] for index in entry["uncertain"]] == uncertain[:3]


def test_empty_clusters_are_left_out_and_excluded_images_marked() -> None:
    entries = cluster_entries(Clustering(["a", "b", "c"], [0, 0, 3]).exclude([1]))
    assert [(entry["number"], entry["excluded"]) for entry in entries] == [(0, False), (3, False), (4, True)]


def test_attention_is_due_to_close_calls_confusion_and_low_cohesion() -> None:
    sure, unsure = [1.0, 0.0, 0.0], [0.5, 0.5, 0.0]
    c = Clustering(["a", "b"], [0, 0], probabilities=[sure, sure])
    assert cluster_entries(c)[0]["attention"] == 0
    c = Clustering(["a", "b"], [0, 0], probabilities=[sure, unsure])
    # Half of the rows are close calls, and a quarter of the probability is in another cluster.
    assert cluster_entries(c)[0]["attention"] == 1 - 0.5 * 0.5
    assert cluster_entries(c.lock([0, 1]))[0]["attention"] == 0
    loose = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    c = Clustering(list("abcd"), [0, 0, 1, 1], embedding=loose)
    assert [entry["attention"] > 0 for entry in cluster_entries(c)] == [False, True]


def test_headline_agrees_in_number() -> None:
    assert headline(1, 1, "row") == "1 row in 1 cluster"
    assert headline(0, 0, "image") == "0 images in 0 clusters"

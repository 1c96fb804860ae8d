"""The images a report carries: fair to every cluster, bounded in number and bytes."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
from PIL import Image

from cgmcr2.clustering import Clustering
from cgmcr2.images import Catalog
from cgmcr2.report.thumbnails import choose, encode


def clustering(sizes: list[int], seed: int = 0) -> Clustering:
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    n = len(labels)
    confidence, margin = rng.random((2, n))
    Z = rng.standard_normal((n, 5))
    return Clustering([f"{i}.png" for i in range(n)], labels, confidence=confidence, margin=margin, embedding=Z)


def test_small_sets_are_shown_whole() -> None:
    c = clustering([30, 5, 65])
    assert sorted(choose(c)) == list(range(100))


def test_every_cluster_has_its_best_and_its_doubtful_images() -> None:
    c = clustering([4000, 3, 400])
    rows = choose(c, most=60)
    assert len(rows) == 60
    assert len(set(rows)) == 60
    chosen = set(rows)
    assert chosen >= set(c.rows(1))
    for cluster in (0, 2):
        assert c.representatives(cluster, 1)[0] in chosen
        assert c.uncertain(cluster, 1)[0] in chosen
    np.testing.assert_array_equal(rows, choose(c, most=60))


def test_with_more_clusters_than_room_the_first_turn_is_cut() -> None:
    c = clustering([4] * 50)
    rows = choose(c, most=20)
    assert len(rows) == 20
    assert all(row == c.representatives(int(c.labels[row]), 1)[0] for row in rows)


def test_room_that_is_left_goes_to_other_images() -> None:
    c = clustering([1000, 1000])
    rows = choose(c, most=500)
    assert len(set(rows)) == 500
    assert np.bincount(c.labels[rows]).min() > 150  # drawn from both


def test_encoded_images_are_small_and_keep_their_shape(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for i in range(6):
        Image.fromarray(rng.integers(0, 256, (300, 600, 3), dtype=np.uint8)).save(tmp_path / f"{i}.png")
    (tmp_path / "5.png").write_bytes(b"no image")
    c = clustering([6, 1])  # 6.png is not there at all
    kept = encode(Catalog.from_source(tmp_path), c, np.array([3, 0, 5, 6, 1, 2, 4]))
    assert set(kept) == {0, 1, 2, 3, 4}
    with Image.open(io.BytesIO(base64.b64decode(kept[3]))) as image:
        assert image.format == "WEBP"
        assert image.size == (288, 144)
    one = len(base64.b64decode(kept[3]))
    few = encode(Catalog.from_source(tmp_path), c, np.array([3, 0, 1, 2, 4]), most_bytes=int(2.5 * one))
    assert list(few) == [3, 0]  # the first of the rows, not of the files

"""Thumbnails represent every cluster and stay within their limits."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cgmcr2.clustering import Clustering
from cgmcr2.images import Catalog
from cgmcr2.report.limits import PageLimits
from cgmcr2.report.thumbnails import encode, select_rows


def clustering(sizes: list[int], seed: int = 0) -> Clustering:
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    n = len(labels)
    confidence, margin = rng.random((2, n))
    Z = rng.standard_normal((n, 5))
    return Clustering([f"{i}.png" for i in range(n)], labels, confidence=confidence, margin=margin, embedding=Z)


def test_all_images_of_a_small_set_are_selected() -> None:
    c = clustering([30, 5, 65])
    assert sorted(select_rows(c, PageLimits())) == list(range(100))


def test_every_cluster_has_typical_and_uncertain_images() -> None:
    c = clustering([4000, 3, 400])
    rows = select_rows(c, PageLimits(thumbnails=60))
    assert len(rows) == 60
    assert len(set(rows)) == 60
    selected = set(rows)
    assert selected >= set(c.rows(1))
    for cluster in (0, 2):
        assert c.representatives(cluster, 1)[0] in selected
        assert c.uncertain(cluster, 1)[0] in selected
    np.testing.assert_array_equal(rows, select_rows(c, PageLimits(thumbnails=60)))


def test_more_clusters_than_thumbnails() -> None:
    c = clustering([4] * 50)
    rows = select_rows(c, PageLimits(thumbnails=20))
    assert len(rows) == 20
    assert all(row == c.representatives(int(c.labels[row]), 1)[0] for row in rows)


def test_remaining_thumbnails_go_to_random_images() -> None:
    c = clustering([1000, 1000])
    rows = select_rows(c, PageLimits(thumbnails=500))
    assert len(set(rows)) == 500
    assert np.bincount(c.labels[rows]).min() > 150  # from both clusters


def test_thumbnails_are_small_keep_their_aspect_ratio_and_respect_the_byte_limit(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for i in range(6):
        Image.fromarray(rng.integers(0, 256, (300, 600, 3), dtype=np.uint8)).save(tmp_path / f"{i}.png")
    (tmp_path / "5.png").write_bytes(b"not an image")
    c = clustering([6, 1])  # 6.png does not exist
    encoded = encode(Catalog.from_source(tmp_path), c, np.array([3, 0, 5, 6, 1, 2, 4]))
    assert set(encoded) == {0, 1, 2, 3, 4}
    with Image.open(io.BytesIO(base64.b64decode(encoded[3]))) as image:
        assert image.format == "WEBP"
        assert image.size == (288, 144)
    size = len(base64.b64decode(encoded[3]))
    within_limit = encode(Catalog.from_source(tmp_path), c, np.array([3, 0, 1, 2, 4]), max_bytes=int(2.5 * size))
    assert list(within_limit) == [3, 0]  # by priority, not in the order of the files


def test_limits_are_checked() -> None:
    with pytest.raises(ValueError, match="30 thumbnails need at least as many rows, but rows is 20"):
        PageLimits(rows=20, thumbnails=30)

"""Heatmaps show the values of the similarity matrix and the cluster colours."""

from __future__ import annotations

import base64
import io

import numpy as np
from PIL import Image

from cgmcr2.clustering import Clustering
from cgmcr2.page.colors import PALETTE, rgb
from cgmcr2.report.similarity import STRIP, absolute_cosines, heatmap, sample_by_cluster


def decode(uri: str) -> np.ndarray:
    head, text = uri.split(",")
    assert head == "data:image/png;base64"
    with Image.open(io.BytesIO(base64.b64decode(text))) as image:
        return np.asarray(image.convert("RGBA")).astype(int)


def test_diagonal_blocks_are_light_and_the_rest_is_dark() -> None:
    labels = np.repeat([0, 1, 13], 4)
    Z = np.eye(14, dtype=np.float32)[labels]
    pixels = decode(heatmap(absolute_cosines(Z), labels))
    assert pixels.shape == (12 + STRIP + 2, 12 + STRIP + 2, 4)
    body = pixels[STRIP + 2 :, STRIP + 2 :, :3].sum(-1)
    same = labels[:, None] == labels[None]
    assert body[same].min() > 600
    assert body[~same].max() < 100


def test_edges_have_the_cluster_colours() -> None:
    labels = np.array([0, 1, 13])
    pixels = decode(heatmap(np.eye(3, dtype=np.float32), labels))
    for row, label in enumerate(labels):
        assert tuple(pixels[0, STRIP + 2 + row, :3]) == rgb(label)
        assert tuple(pixels[STRIP + 2 + row, 0, :3]) == rgb(label)
    assert pixels[0, 0, 3] == 0  # the corner is transparent
    assert rgb(13) == rgb(1)
    assert len(set(PALETTE)) == 12


def test_lightness_increases_with_similarity() -> None:
    values = np.linspace(0, 1, 30, dtype=np.float32)
    matrix = np.minimum(values[:, None], values[None, :])
    pixels = decode(heatmap(matrix, np.zeros(30, dtype=np.int64)))[STRIP + 2 :, STRIP + 2 :, :3]
    light = np.diagonal(pixels.sum(-1))
    assert (np.diff(light) >= 0).all()
    assert light[-1] - light[0] > 500


def test_zero_rows_and_nan() -> None:
    rows = np.array([[0, 0], [1, 0]], dtype=np.float32)
    assert np.isfinite(absolute_cosines(rows)).all()
    decode(heatmap(np.full((2, 2), np.nan, dtype=np.float32), np.array([0, 1])))


def test_sample_is_sorted_by_cluster_and_proportional() -> None:
    labels = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [6000, 3000, 1000]))
    c = Clustering([str(i) for i in range(10_000)], labels)
    rows = sample_by_cluster(c, 400)
    assert len(set(rows)) == 400
    assert (np.diff(c.labels[rows]) >= 0).all()
    assert np.bincount(c.labels[rows])[0] / 400 > 0.5
    np.testing.assert_array_equal(rows, sample_by_cluster(c, 400))

"""Write a finished run on synthetic images, without training: for benchmarks of the explorer at any size."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from cgmcr2 import Clustering
from cgmcr2._arrays import unit_rows
from cgmcr2.model import ClusterMeans
from cgmcr2.runs import RunFolder, RunInfo
from cgmcr2.runs.info import FittedOn

SIDE = 96  # pixels of an image
SAMPLES = 20  # different images per cluster; the files are copies of them


def write_run(folder: Path, n: int, k: int, d: int = 128, *, images: bool = True, seed: int = 0) -> Path:
    """Write the run of n rows in k clusters with an embedding of width d, if it does not exist, and return its path.

    The images of a cluster have the same hue. Every 100th image is a near-duplicate of the one before it.
    """
    path, photos = folder / f"run-{n}-{k}", folder / f"photos-{n}-{k}"
    if RunFolder(path).run_json.exists():
        return path
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, k, n)
    centres = unit_rows(rng.normal(size=(k, d))).astype(np.float32)
    Z = np.empty((n, d), np.float32)
    P = np.empty((n, k), np.float32)
    for start in range(0, n, 50_000):
        rows = slice(start, start + 50_000)
        Z[rows] = unit_rows(centres[labels[rows]] + 0.06 * rng.normal(size=Z[rows].shape).astype(np.float32))
        logits = 10 * Z[rows] @ centres.T
        P[rows] = np.exp(logits - logits.max(axis=1, keepdims=True))
        P[rows] /= P[rows].sum(axis=1, keepdims=True)
    groups = np.arange(n)
    groups[1::100] = groups[0 : n - 1 : 100]
    ids = [f"{row // 1000:04}/{row:07}.jpg" for row in range(n)]
    labels = P.argmax(axis=1)
    if images:
        _write_images(photos, ids, labels, rng)
    run = RunFolder(path)
    U = torch.from_numpy(Z)
    outlier = ClusterMeans.of(U, torch.from_numpy(labels), k).outlier_scores(U).numpy()
    clustering = Clustering(ids, labels, embedding=Z, probabilities=P, outlier=outlier, groups=groups)
    clustering.save(path)
    run.write_info(
        RunInfo(
            source=str(photos),
            fitted_on=FittedOn("all images", n, d),
            parameters={"n_clusters": k},
            encoder_name="bundled",
            finished=True,
        )
    )
    run.seal()
    return path


def _write_images(folder: Path, ids: list[str], labels: np.ndarray, rng: np.random.Generator) -> None:
    files = {}
    for name, label in zip(ids, labels.tolist(), strict=True):
        key = (label, int(rng.integers(SAMPLES)))
        if key not in files:
            hue = np.full((SIDE, SIDE, 1), label * 255 // (labels.max() + 1))
            noise = rng.integers(0, 256, (8, 8, 2)).repeat(SIDE // 8, 0).repeat(SIDE // 8, 1)
            pixels = np.concatenate([hue, noise // 2 + 127], axis=2).astype(np.uint8)
            file = io.BytesIO()
            Image.fromarray(pixels, "HSV").convert("RGB").save(file, "JPEG", quality=80)
            files[key] = file.getvalue()
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files[key])

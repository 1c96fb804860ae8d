"""UMAP and k-means, with a fake of the package that projects on the first columns."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cgmcr2.baselines.umap_kmeans import UMAPKMeans

X = np.repeat(np.eye(6, dtype=np.float32)[:3], 10, axis=0) + 0.01 * np.random.default_rng(0).random((30, 6))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Parameters of each call of the fake."""
    calls: list[dict[str, Any]] = []

    class FakeUMAP:
        def __init__(self, **parameters: Any) -> None:
            calls.append(parameters)

        def fit_transform(self, U: np.ndarray) -> np.ndarray:
            return U[:, : calls[-1]["n_components"]]

    module = types.ModuleType("umap")
    module.UMAP = FakeUMAP  # type: ignore[attr-defined]
    module.__spec__ = types.SimpleNamespace()  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "umap", module)
    return calls


def test_clusters_and_new_rows(calls: list[dict[str, Any]], tmp_path: Path) -> None:
    model = UMAPKMeans(3, n_components=3, n_neighbors=4, random_state=2).fit(X)
    assert calls[0]["metric"] == "cosine"
    assert calls[0]["random_state"] == 2
    assert len(set(zip(model.labels_, np.arange(30) // 10, strict=True))) == 3
    new = 5 * np.eye(6)[:3]
    assert model.predict(new).tolist() == model.labels_[[0, 10, 20]].tolist()
    model.save(tmp_path)
    assert (UMAPKMeans.load(tmp_path).predict(new) == model.predict(new)).all()

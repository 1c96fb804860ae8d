"""EVoC's layers and its package, replaced by a fake that records how it is called."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest

from cgmcr2.baselines.evoc import EVoC

X = np.repeat(np.eye(4, dtype=np.float32), 5, axis=0) + 0.01


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Parameters of each call of the fake, which finds layers of 4, 2 and 1 clusters and leaves a row as noise."""
    calls: list[dict[str, Any]] = []

    class FakeEVoC:
        def __init__(self, **parameters: Any) -> None:
            calls.append(parameters)

        def fit(self, U: np.ndarray) -> FakeEVoC:
            assert np.allclose(np.linalg.norm(U, axis=1), 1)
            groups = np.arange(20) // 5
            self.cluster_layers_ = [groups.copy(), groups // 2, groups * 0]
            for layer in self.cluster_layers_:
                layer[7] = -1
            return self

    module = types.ModuleType("evoc")
    module.EVoC = FakeEVoC  # type: ignore[attr-defined]
    module.__spec__ = types.SimpleNamespace()  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "evoc", module)
    return calls


def test_evoc_is_asked_for_k_clusters(calls: list[dict[str, Any]]) -> None:
    model = EVoC(4, random_state=3).fit(X)
    assert calls == [{"approx_n_clusters": 4, "noise_level": 0.5, "n_neighbors": 15, "random_state": 3}]
    assert model.labels_.tolist() == (np.arange(20) // 5).tolist()
    assert model.noise_ == pytest.approx(0.05)


@pytest.mark.parametrize(("k", "clusters"), [(5, 4), (2, 2), (1, 1)])
def test_the_layer_closest_to_k(calls: list[dict[str, Any]], k: int, clusters: int) -> None:
    model = EVoC(k, layers=True).fit(X)
    assert calls[0]["approx_n_clusters"] is None
    assert len(set(model.labels_)) == clusters

from __future__ import annotations

from cgmcr2.evaluation import Protocol


def test_the_protocol_names_the_method_and_the_seeds() -> None:
    text = str(Protocol("split 0", 10, "split 1", 5, "spectral", 3))
    assert text.endswith("by spectral clustering of the embedding, mean and std over 3 seeds")

from __future__ import annotations

import pytest

from cgmcr2.training import PRESETS, Settings, paper_settings, resolve


def test_the_papers_table_is_the_papers() -> None:
    k, settings = paper_settings("ImageNet-1k")
    assert k == 1000
    assert settings == {
        "lr": 1e-3, "weight_decay": 1e-4, "embedding_dim": 256, "warmup_epochs": 10, "finetune_epochs": 10,
        "batch_size": 3000, "gamma": 50000, "eps": 0.2, "s": 3,
    }  # fmt: skip
    assert paper_settings("Fashion-MNIST")[1]["eps"] == 0.2
    assert paper_settings("cifar_20")[0] == 20
    with pytest.raises(ValueError, match="no settings for 'svhn'; choose from mnist"):
        paper_settings("svhn")


@pytest.mark.parametrize(("k", "gamma"), [(2, 70), (10, 70), (20, 80), (100, 1400), (110, 1200), (700, 50000)])
def test_paper_preset_takes_the_nearest_row(k: int, gamma: float) -> None:
    assert resolve("paper", 50_000, k, 768).gamma == gamma


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(
    ("n", "k", "D"), [(2, 2, 1), (200, 2, 32), (200, 200, 4096), (50_000, 10, 768), (1_281_167, 1000, 768)]
)
def test_every_preset_is_complete_for_any_size(preset: str, n: int, k: int, D: int) -> None:
    settings = resolve(preset, n, k, D)  # type: ignore[arg-type]
    assert isinstance(settings, Settings)
    assert resolve(preset, n, k, D, {"gamma": 3.5, "eps": None}).gamma == 3.5  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"gamma": -1}, "gamma must be a number of at least 0, but is -1"),
        ({"eps": 0}, "eps must be a number above 0"),
        ({"batch_size": 1}, "batch_size must be at least 2"),
        ({"affinity": "euclid"}, "affinity must be one of 'cosine_topk'"),
        ({"warmup_epochs": 0, "finetune_epochs": 0}, "both 0"),
        ({"bn_momentum": 1.0}, "bn_momentum must be at least 0 and below 1"),
        ({"graph": "whole"}, "needs neighbours"),
        ({"no_such": 1}, "no setting named 'no_such'"),
    ],
)
def test_bad_settings_are_one_sentence(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        resolve("paper", 100, 10, 8, change)


def test_unknown_preset() -> None:
    with pytest.raises(ValueError, match="preset must be one of 'auto', 'paper', 'reference', but is 'fast'"):
        resolve("fast", 100, 10, 8)  # type: ignore[arg-type]


@pytest.mark.parametrize("batch_size", [2, 16, None])
def test_auto_sees_every_row_several_times_whatever_the_batches(batch_size: int | None) -> None:
    settings = resolve("auto", 1000, 20, 64, {"batch_size": batch_size})
    assert settings.warmup_epochs + settings.finetune_epochs > 4.9

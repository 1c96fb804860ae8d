"""Damaged run folders and stores: no command crashes or silently changes its result; benchmarks/faults.py does more."""

from __future__ import annotations

from pathlib import Path

import pytest

from .colours import write_photos
from .fault_injection import MUTATIONS, Failure, Target, inject, make_targets

SETTINGS = ("hidden_dim=8", "warmup_epochs=20", "finetune_epochs=10", "n_heads=1", "lr=0.01")
QUICK = ["--encoder", "colours", *(word for setting in SETTINGS for word in ("--set", setting))]


EXPECTED = {
    "images": {"run.json", "labels.csv", "model/model.safetensors", "features/manifest.json"},
    "features": {"run.json", "labels.csv", "model/model.safetensors"},
    "interrupted": {"run.json", "checkpoint.safetensors", "precomputed.safetensors", "metrics.jsonl"},
    "store": {"manifest.json", "shard-00000.npy", "shard-00000.json", "labels.npz"},
}


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Target]:
    folder = tmp_path_factory.mktemp("faults")
    photos = write_photos(folder / "photos", 24)
    (photos / "broken.jpg").write_text("not an image")
    return make_targets(photos, QUICK, folder / "targets")


@pytest.mark.parametrize("name", ["images", "features", "interrupted", "store"])
def test_no_command_crashes_or_silently_changes_its_result(
    targets: dict[str, Target], name: str, tmp_path: Path
) -> None:
    target = targets[name]
    files = target.files()
    assert EXPECTED[name] < set(files)
    faults = [(file, MUTATIONS[number % len(MUTATIONS)], number) for number, file in enumerate(files)]
    outcomes = list(inject(target, tmp_path, faults, commands=2, slow=0.2))
    assert [outcome for outcome in outcomes if isinstance(outcome, Failure)] == []
    assert len(outcomes) >= 2 * len(files)

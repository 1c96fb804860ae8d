from __future__ import annotations

import dataclasses
import errno
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import SafetensorError

from cgmcr2.training import Settings
from cgmcr2.training.checkpoint import Checkpoints, remove_checkpoints
from cgmcr2.training.precompute import Precomputed
from cgmcr2.training.state import TrainingState

CPU = torch.device("cpu")


def state(settings: Settings, seed: int = 0) -> TrainingState:
    return TrainingState.create(settings, (8,), 3, 5, Precomputed(), seed, CPU)


def test_a_state_round_trips(small: Settings, tmp_path: Path) -> None:
    identity: dict[str, Any] = {"settings": dataclasses.asdict(small), "seed": 0}
    saved = state(small)
    loss = sum(parameter.square().sum() for parameter in saved.network.parameters())
    loss.backward()  # type: ignore[union-attr]
    saved.optimizer.step()
    saved.step, saved.metrics_digest = 7, "abc"
    Checkpoints(tmp_path, identity).save(saved)

    restored = state(small, seed=1)
    Checkpoints(tmp_path, identity).restore(restored)
    assert (restored.step, restored.metrics_digest) == (7, "abc")
    for a, b in zip(saved.network.state_dict().values(), restored.network.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    for a, b in zip(saved.network.parameters(), restored.network.parameters(), strict=True):
        assert torch.equal(saved.optimizer.state[a]["exp_avg_sq"], restored.optimizer.state[b]["exp_avg_sq"])


def test_without_a_folder_nothing_is_kept(small: Settings) -> None:
    checkpoints = Checkpoints(None, {})
    checkpoints.save(state(small))
    assert checkpoints.load_precomputed() is None


def test_finished_trainings_keep_no_checkpoint(small: Settings, tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, {"settings": {}})
    checkpoints.save(state(small))
    checkpoints.save_precomputed(Precomputed(partition=np.arange(3)))
    assert checkpoints.load_precomputed() is not None
    remove_checkpoints(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_checkpoint_is_one_sentence(small: Settings, tmp_path: Path) -> None:
    (tmp_path / "checkpoint.safetensors").write_bytes(b"rubbish")
    with pytest.raises(ValueError, match=r"not a readable checkpoint .* delete it to train from the beginning"):
        Checkpoints(tmp_path, {}).restore(state(small))


def test_zeroed_or_flipped_blocks_are_detected(small: Settings, tmp_path: Path) -> None:
    checkpoints, path = Checkpoints(tmp_path, {"settings": {}}), tmp_path / "checkpoint.safetensors"
    saved = state(small)
    saved.step = 3
    checkpoints.save(saved)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for offset in rng.integers(8, len(content) - 16, size=60).tolist():  # the header and the tensors
        block = content[offset : offset + 16]
        for damage in (bytes(16), bytes(byte ^ 0x01 for byte in block)):
            if damage == block:
                continue
            path.write_bytes(content[:offset] + damage + content[offset + 16 :])
            with pytest.raises(ValueError, match=r"is not a readable checkpoint|other settings or data"):
                checkpoints.restore(state(small))


@pytest.mark.parametrize("size", [0, 7, 100, -1])
def test_a_truncated_checkpoint_is_one_sentence(small: Settings, tmp_path: Path, size: int) -> None:
    checkpoints, path = Checkpoints(tmp_path, {"settings": {}}), tmp_path / "checkpoint.safetensors"
    checkpoints.save(state(small))
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ValueError, match=r"not a readable checkpoint \(.+\); delete it"):
        checkpoints.restore(state(small))


def test_tensors_of_other_shapes_are_one_sentence(small: Settings, tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, {"settings": {}})
    checkpoints.save(state(dataclasses.replace(small, hidden_dim=8)))
    with pytest.raises(ValueError, match=r"not a readable checkpoint \(.+\); delete it") as error:
        checkpoints.restore(state(small))
    assert "\n" not in str(error.value)


def test_inputs_of_another_version_are_computed_again(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, {"settings": {}})
    checkpoints.write("precomputed.safetensors", {"mean": torch.zeros(3), "matrix": torch.zeros(3, 2)}, {})
    assert checkpoints.load_precomputed() is None


def test_a_damaged_precomputed_file_is_one_sentence(tmp_path: Path) -> None:
    checkpoints, path = Checkpoints(tmp_path, {"settings": {}}), tmp_path / "precomputed.safetensors"
    checkpoints.save_precomputed(Precomputed(partition=np.arange(300)))
    content = path.read_bytes()
    path.write_bytes(content[:-100] + bytes(100))
    with pytest.raises(ValueError, match=r"precomputed.safetensors is not a readable checkpoint"):
        checkpoints.load_precomputed()


def test_a_full_disk_is_reported_as_such(small: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints, path = Checkpoints(tmp_path, {"settings": {}}), tmp_path / "checkpoint.safetensors"
    checkpoints.save(state(small))
    content = path.read_bytes()

    def full(*arguments: Any, **options: Any) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr("cgmcr2.training.state_file.save_file", full)
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage._replace(free=0))
    with pytest.raises(OSError, match="No space left on device") as error:
        checkpoints.save(state(small, seed=1))
    assert error.value.errno == errno.ENOSPC
    assert path.read_bytes() == content
    assert [file.name for file in tmp_path.iterdir()] == [path.name]

from __future__ import annotations

import dataclasses
import json
import os
import signal
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

from cgmcr2.model import Network
from cgmcr2.objectives import CgMCR2Objective, ReleasedObjective, coding_rate
from cgmcr2.training import Settings, Trained, resolve, train
from cgmcr2.training.checkpoint import Checkpoints
from cgmcr2.training.log import read_metrics
from cgmcr2.training.monitor import Record

Array = np.ndarray[Any, Any]


def weights(trained: Trained) -> dict[str, torch.Tensor]:
    return trained.network.state_dict()


def assert_same(a: Trained, b: Trained) -> None:
    for name, tensor in weights(a).items():
        assert torch.equal(tensor, weights(b)[name]), name
    assert a.head == b.head
    assert without_times(a.history) == without_times(b.history)


def losses(trained: Trained) -> list[float | None]:
    return [record["loss"] for record in trained.history]


def without_times(history: list[Record]) -> list[Record]:
    return [{name: value for name, value in record.items() if "seconds" not in name} for record in history]


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"membership": "softmax"},
        {"objective": "released", "schedule": "released", "gamma": 30.0, "penalty": "norm"},
        {"affinity": "gaussian"},
        {"affinity": "doubly_stochastic"},
        {"affinity": "cosine"},
        {"cut_in_finetuning": False},
        {"warmup_epochs": 0, "finetune_epochs": 15},
        {"depth": 4, "n_heads": 1},
        {"cluster_module": "k-means", "n_heads": 1},
        {"cluster_module": "spectral", "n_heads": 1, "objective": "released"},
        {"cluster_module": "ensc", "n_heads": 1, "warmup_epochs": 12, "finetune_epochs": 3},
        {"projection": 6, "neighbours": 5, "graph": "whole", "consensus_weight": 2.0},
        {"neighbours": 5},
    ],
    ids=str,
)
def test_every_variant_trains_and_repeats_bit_for_bit(X: Array, change: dict[str, Any], small: Settings) -> None:
    settings = dataclasses.replace(small, **change)
    first, second = train(X, 3, settings, seed=4), train(X, 3, settings, seed=4)
    assert_same(first, second)
    assert first.finished
    assert not first.network.training
    assert len(first.history) == 45
    assert all(record["finite"] for record in first.history)
    other = train(X, 3, settings, seed=5)
    assert not torch.equal(weights(first)["pre_feature.weight"], weights(other)["pre_feature.weight"])
    unchanged = train(X, 3, dataclasses.replace(small, n_heads=settings.n_heads), seed=4)
    assert (losses(first) != losses(unchanged)) == bool(change)


def test_the_cut_can_be_left_out_of_fine_tuning(X: Array, small: Settings) -> None:
    history = train(X, 3, dataclasses.replace(small, cut_in_finetuning=False)).history
    assert all(record["cut"] > 0 and record["penalty"] > 0 for record in history[:15])
    assert all(record["cut"] == record["penalty"] == 0 for record in history[15:])


def test_the_terms_of_each_stage(X: Array, small: Settings) -> None:
    history = train(X, 3, small).history
    warm_up, fine_tuning = history[:15], history[15:]
    assert all(record["stage"] == "warm-up" and record["Rc"] == 0 for record in warm_up)
    assert all(record["stage"] == "fine-tuning" and record["Rc"] > 0 for record in fine_tuning)
    for record in history:
        total = -record["R"] + record["Rc"] + record["cut"] + record["penalty"]
        assert record["loss"] == pytest.approx(total, abs=1e-3)


def test_training_reads_projected_rows(X: Array, small: Settings) -> None:
    """The first embedding is the leading dimensions of the projection, and the first batch holds all rows."""
    p, d = X.shape[1], small.embedding_dim
    settings = dataclasses.replace(small, projection=p, batch_size=len(X))
    trained = train(X, 3, settings, seed=4)
    Z = trained.network.project(torch.from_numpy(X))[:, :d]
    expected = coding_rate(torch.nn.functional.normalize(Z, dim=1), settings.eps).item()
    assert trained.history[0]["R"] == pytest.approx(expected, rel=1e-4)


def test_the_callers_random_state_is_left_alone(X: Array, small: Settings) -> None:
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    train(X, 3, small)
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize("change", [{}, {"warmup_epochs": 4.5}], ids=str)
def test_on_epoch_gets_the_network_that_training_would_return(
    X: Array, change: dict[str, Any], small: Settings
) -> None:
    settings = dataclasses.replace(small, **change)
    seen: dict[int, tuple[dict[str, torch.Tensor], int]] = {}

    def on_epoch(epoch: int, network: Network, head: int) -> None:
        assert not network.training
        seen[epoch] = ({name: tensor.clone() for name, tensor in network.state_dict().items()}, head)
        network.train()(torch.from_numpy(X))  # moves BatchNorm's statistics, of the copy only
        torch.nn.init.zeros_(network.feature_out.weight)

    observed, plain = train(X, 3, settings, on_epoch=on_epoch), train(X, 3, settings)
    assert_same(observed, plain)
    assert list(seen) == list(range(1, 16))
    last, head = seen[15]
    assert head == plain.head
    for name, tensor in weights(plain).items():
        assert torch.equal(tensor, last[name]), name
    assert not torch.equal(seen[1][0]["pre_feature.weight"], last["pre_feature.weight"])


@pytest.mark.parametrize("cut_at", [1, 17, 44])
def test_a_resumed_training_equals_an_uninterrupted_one(
    X: Array, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut_at: int, small: Settings
) -> None:
    settings = dataclasses.replace(
        small,
        objective="released",
        neighbours=3,
        consensus_weight=1.0,
        projection=4,
    )
    whole = train(X, 3, settings, folder=tmp_path / "whole")

    save, saved = Checkpoints.save, 0

    def save_and_exit(self: Checkpoints, state: Any) -> None:
        nonlocal saved
        save(self, state)
        saved += 1
        if saved == cut_at:
            raise SystemExit("killed")

    monkeypatch.setattr(Checkpoints, "save", save_and_exit)
    with pytest.raises(SystemExit):
        train(X, 3, settings, folder=tmp_path / "cut", checkpoint_seconds=-1.0)  # a checkpoint after every step
    monkeypatch.undo()
    monkeypatch.setattr("cgmcr2.training.loop.precompute", None)  # the consensus is not computed again
    with (tmp_path / "cut" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 9')  # a line cut by the kill
    resumed = train(X, 3, settings, folder=tmp_path / "cut")
    assert_same(whole, resumed)
    assert without_times(read_metrics(tmp_path / "cut" / "metrics.jsonl")) == without_times(whole.history)


def test_a_folder_of_another_training_is_refused(X: Array, tmp_path: Path, small: Settings) -> None:
    train(X, 3, small, folder=tmp_path)
    with pytest.raises(ValueError, match=r"other settings or data \(gamma was 5.0, is 6.0 now\)"):
        train(X, 3, dataclasses.replace(small, gamma=6.0), folder=tmp_path)
    (tmp_path / "checkpoint.safetensors").write_bytes(b"rubbish")
    with pytest.raises(ValueError, match="not a readable checkpoint"):
        train(X, 3, small, folder=tmp_path)


def test_ctrl_c_ends_after_the_step_and_keeps_the_model(X: Array, tmp_path: Path, small: Settings) -> None:
    class Pressing:
        """Presses Ctrl-C while a batch is read."""

        shape = X.shape
        reads = 0

        def __getitem__(self, rows: Any) -> Any:
            self.reads += 1
            if self.reads == 8:
                os.kill(os.getpid(), signal.SIGINT)
            return X[rows]

    handler = signal.getsignal(signal.SIGINT)
    with pytest.warns(ConvergenceWarning, match="Interrupted after step"):
        stopped = train(Pressing(), 3, small, folder=tmp_path)
    assert signal.getsignal(signal.SIGINT) is handler
    assert not stopped.finished
    assert 0 < len(stopped.history) < 45
    assert_same(train(X, 3, small, folder=tmp_path), train(X, 3, small))


def test_training_works_outside_the_main_thread(X: Array, small: Settings) -> None:
    results: list[Trained] = []
    thread = threading.Thread(target=lambda: results.append(train(X, 3, small)))
    thread.start()
    thread.join()
    assert results[0].finished


def break_objective(
    monkeypatch: pytest.MonkeyPatch,
    steps: set[int],
    objective: type[CgMCR2Objective | ReleasedObjective] = CgMCR2Objective,
) -> None:
    forward, calls = objective.forward, iter(range(10_000))

    def broken(self: Any, *arguments: Any, **options: Any) -> Any:
        terms = forward(self, *arguments, **options)
        return (
            terms._replace(total=terms.total * torch.nan, cut=terms.cut * torch.nan) if next(calls) in steps else terms
        )

    monkeypatch.setattr(objective, "forward", broken)


def test_a_step_that_is_not_finite_is_skipped_and_counted(
    X: Array, monkeypatch: pytest.MonkeyPatch, small: Settings
) -> None:
    break_objective(monkeypatch, {3, 4, 20})
    with pytest.warns(ConvergenceWarning, match="Skipped 3 of 45 steps because their gradients were not finite"):
        trained = train(X, 3, small)
    assert [record["step"] for record in trained.history if not record["finite"]] == [3, 4, 20]
    assert trained.history[3]["loss"] is None
    assert all(tensor.isfinite().all() for tensor in weights(trained).values())


def test_many_in_a_row_end_training_with_the_cause(X: Array, monkeypatch: pytest.MonkeyPatch, small: Settings) -> None:
    break_objective(monkeypatch, set(range(5, 100)))
    with pytest.raises(
        FloatingPointError, match=r"cut was not finite in 15 consecutive steps .* lower the learning rate"
    ):
        train(X, 3, small)


def test_reference_skips_non_finite_steps_and_continues_as_the_released_code_does(
    X: Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = resolve("reference", 120, 3, 8, {"hidden_dim": 16, "batch_size": 40, "warmup_epochs": 40})
    break_objective(monkeypatch, set(range(5, 85)), ReleasedObjective)
    with pytest.warns(ConvergenceWarning, match="Skipped 80 of 150 steps"):
        trained = train(X, 3, settings)
    assert trained.finished
    assert all(tensor.isfinite().all() for tensor in weights(trained).values())
    break_objective(monkeypatch, set(range(5, 1000)), ReleasedObjective)
    with pytest.raises(FloatingPointError, match="not finite in 115 consecutive steps"):
        train(X, 3, settings)


def test_a_collapse_warns_with_advice(X: Array, small: Settings) -> None:
    settings = dataclasses.replace(small, gamma=0.0, warmup_epochs=60, finetune_epochs=0, lr=1e-2)
    with pytest.warns(ConvergenceWarning, match=r"collapsed: after \d+ steps, \d of 8 are live, .* raise gamma"):
        train(X, 8, settings)


@pytest.mark.parametrize(("n", "k"), [(2, 2), (3, 2), (5, 5), (41, 10), (16, 16)])
@pytest.mark.parametrize("preset", ["auto", "paper"])
def test_any_n_and_k(X: Array, preset: Any, n: int, k: int, small: Settings) -> None:
    small = {"hidden_dim": 8, "warmup_epochs": 2, "finetune_epochs": 2, "lr": 1e-3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        trained = train(X[:n], k, resolve(preset, n, k, 8, small))
    assert all(record["finite"] for record in trained.history)


def test_bfloat16_and_float32_agree_in_kind(X: Array, small: Settings) -> None:
    half = train(X, 3, small, precision="bfloat16")
    full = train(X, 3, small, precision="float32")
    assert half.history[-1]["R"] == pytest.approx(full.history[-1]["R"], rel=0.1)
    assert losses(half) != losses(full)
    assert weights(half)["pre_feature.weight"].dtype == torch.float32


def test_unusable_device_and_precision_are_refused(X: Array, small: Settings) -> None:
    with pytest.raises(ValueError, match="device 'nonsense' cannot be used"):
        train(X, 3, small, device="nonsense")
    with pytest.raises(ValueError, match="precision must be"):
        train(X, 3, small, precision="float8")


def test_tensorboard_files_are_written(X: Array, tmp_path: Path, small: Settings) -> None:
    pytest.importorskip("tensorboard")
    train(X, 3, small, folder=tmp_path, tensorboard=True)
    assert list((tmp_path / "tensorboard").glob("events.*"))
    with pytest.raises(ValueError, match="TensorBoard needs a folder"):
        train(X, 3, small, tensorboard=True)


def test_metrics_have_no_times(X: Array, tmp_path: Path, small: Settings) -> None:
    train(X, 3, small, folder=tmp_path)
    first = json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[0])
    terms = {"loss", "R", "Rc", "cut", "penalty", "consensus"}
    assert {"step", "epoch", "stage", "lr", *terms, "live_clusters", "balance", "finite"} == first.keys()

from __future__ import annotations

import csv
import json
import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cgmcr2.baselines import METHODS
from cgmcr2.experiments.comparison import Comparison, _resolve_methods, compare, seed_ari


def cells(markdown: str, method: str) -> list[str]:
    """The cells of a method's row in a Markdown table."""
    row = next(line for line in markdown.splitlines() if line.startswith(f"| {method} "))
    return [cell.strip() for cell in row.strip("|").split("|")]


@pytest.fixture(scope="module")
def folder(split_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison of k-means (in a separate process), the consensus, and TAC without text."""
    folder = tmp_path_factory.mktemp("comparison") / "out"
    compare(split_file, 3, folder, methods=["k-means"], seeds=1)
    comparison = compare(split_file, 3, folder, methods=["k-means", "consensus", "tac"], seeds=1, in_process=True)
    assert comparison.save() is None
    return folder


def test_runs_are_recorded_with_their_protocol(folder: Path) -> None:
    runs = [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]
    assert [run["method"] for run in runs] == ["k-means", "consensus"]
    assert runs[0]["protocol"] == "fitted on split 0 (48 rows), predicted split 1 (12 rows)"
    assert runs[1]["protocol"] == runs[0]["protocol"]
    assert runs[1]["acc"] == 1.0
    assert runs[0]["acc"] == 1.0
    assert runs[0]["clusters"] == 3
    assert runs[0]["memory_mb"] > 50
    assert np.load(folder / "labels" / "k-means-0.npy").shape == (12,)


def test_table_and_plot_are_saved(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    assert names == {"compare.json", "runs.jsonl", "labels", "table.md", "table.csv", "plot.png", "plot.svg"}
    table = (folder / "table.md").read_text()
    assert cells(table, "k-means")[:5] == ["k-means", "1", "100.0", "100.0", "100.0"]
    assert cells(table, "tac")[1] == "0"
    assert "left out: needs text embeddings" in table
    with (folder / "table.csv").open(newline="") as file:
        rows = {row["method"]: row for row in csv.DictReader(file)}
    assert float(rows["k-means"]["acc_mean"]) == 1
    assert rows["tac"]["acc_mean"] == ""


def test_only_missing_runs_are_run(folder: Path, split_file: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = folder / "runs.jsonl"
    before = log.read_text()
    with caplog.at_level(logging.INFO):
        again = compare(split_file, 3, folder, methods=["k-means", "consensus"], seeds=1, in_process=True)
        assert log.read_text() == before
        assert not caplog.messages
        assert len(again.results) == 2
        compare(split_file, 3, folder, methods=["k-means"], seeds=2, in_process=True)
    assert [message.partition(":")[0] for message in caplog.messages] == ["k-means, seed 1"]
    log.write_text(before)
    with pytest.raises(ValueError, match=r"holds another comparison \(n_clusters was 3, is 4 now\)"):
        compare(split_file, 4, folder, methods=["k-means"])


def test_the_protocol_all_fits_both_splits(split_file: Path, tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"methods": ["k-means", "hdbscan"], "seeds": 1, "in_process": True}
    comparison = compare(split_file, 3, tmp_path / "out", protocol="all", **arguments)
    legend = "(1) fitted on all rows (60 rows), scored on split 1 (12 rows); mean ± std over the seeds"
    assert legend in comparison.markdown().splitlines()
    assert cells(comparison.markdown(), "hdbscan")[2:6] == ["100.0", "100.0", "100.0", "3"]
    assert np.load(tmp_path / "out" / "labels" / "hdbscan-0.npy").shape == (12,)
    with pytest.raises(ValueError, match="protocol was all, is unseen now"):
        compare(split_file, 3, tmp_path / "out", **arguments)


def test_a_method_without_its_package_is_left_out(
    split_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(METHODS["evoc"], "requires", "package_that_does_not_exist")
    comparison = compare(split_file, 3, tmp_path / "out", methods=["k-means", "evoc"], seeds=1, in_process=True)
    assert "left out: needs the package package_that_does_not_exist" in cells(comparison.markdown(), "evoc")[-1]


def test_a_changed_default_repeats_the_run(split_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def run() -> list[str]:
        caplog.clear()
        methods = ["k-means", "spherical-k-means"]
        compare(split_file, 3, tmp_path / "out", methods=methods, seeds=1, in_process=True)
        return caplog.messages

    with caplog.at_level(logging.INFO):
        assert [message.partition(",")[0] for message in run()] == ["k-means", "spherical-k-means"]
        log = tmp_path / "out" / "runs.jsonl"
        first, *others = log.read_text().splitlines()
        result = json.loads(first)
        assert result["settings"]["n_init"] == 10  # the default
        result["settings"]["n_init"] = 11
        log.write_text("\n".join([json.dumps(result), *others]) + "\n")
        reason, result = run()
        assert reason == "k-means, seed 0 is run again, because settings have changed: n_init was 11, is 10"
        assert result.startswith("k-means, seed 0: ACC")


def test_failed_runs_become_rows_and_are_retried(
    three_groups: tuple[np.ndarray, np.ndarray], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    np.savez(tmp_path / "x.npz", features=three_groups[0])  # no labels
    arguments: dict[str, Any] = {"seeds": 1, "in_process": True}
    with caplog.at_level(logging.INFO):
        first = compare(
            tmp_path / "x.npz",
            3,
            tmp_path / "out",
            methods=["spectral", "spherical-k-means"],
            settings={"spectral": {"s": 0}},
            **arguments,
        )
        assert "s" in first.results[0]["error"]
        assert "error" not in first.results[1]
        assert cells(first.markdown(), "spectral")[1] == "0"
        assert "silhouette %" in first.markdown()
        again = compare(tmp_path / "x.npz", 3, tmp_path / "out", methods=["spectral"], **arguments)
    assert "error" not in again.results[0]
    runs = [message.partition(":")[0] for message in caplog.messages]
    assert runs == ["spectral, seed 0", "spherical-k-means, seed 0", "spectral, seed 0"]


def test_all_means_auto_and_every_baseline() -> None:
    methods = _resolve_methods(["all"], {})
    assert methods[:3] == ["auto", "consensus", "k-means"]
    assert "paper" not in methods
    assert _resolve_methods(["paper", "k-means", "k-means"], {}) == ["paper", "k-means"]
    with pytest.raises(ValueError, match="There is no method named 'kmeans'; did you mean 'k-means'"):
        _resolve_methods(["kmeans"], {})
    with pytest.raises(ValueError, match="There is no method named 'x'"):
        _resolve_methods(["all"], {"x": {}})


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"methods": []}, "No method was given"),
        ({"methods": ["k-means"], "settings": {"spectral": {"s": 5}}}, "settings of spectral, which is not compared"),
        (
            {"methods": ["spectral"], "settings": {"spectral": {"typo": 5}}},
            "spectral: spectral has no parameter named 'typo'",
        ),
        ({"methods": ["auto"], "settings": {"auto": {"lr": -1}}}, "auto: "),
        ({"methods": ["spectral"], "settings": {"spectral": {"n_clusters": 5}}}, "leave out spectral.n_clusters"),
        ({"methods": ["cc"]}, "cc clusters images, but the file has features"),
        ({"methods": ["k-means"], "n_clusters": 0}, "from 1 to the number of fitted rows, 48, not 0"),
        ({"methods": ["k-means"], "labels": "species"}, "has no array 'species' of labels"),
    ],
)
def test_invalid_requests_are_refused_before_the_first_run(
    arguments: dict[str, Any], sentence: str, split_file: Path, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=sentence):
        compare(split_file, **{"n_clusters": 3, "folder": tmp_path / "out", "seeds": 1, **arguments})
    assert not (tmp_path / "out").exists()


def test_a_folder_of_images_and_a_file_of_both_kinds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="make one with cgmcr2 embed, or give an"):
        compare(tmp_path, 3, tmp_path / "out")
    np.savez(tmp_path / "both.npz", images=np.zeros((4, 8, 8, 3), np.uint8), features=np.zeros((4, 2)))
    with pytest.raises(ValueError, match="both 'images' and 'features'"):
        compare(tmp_path / "both.npz", 3, tmp_path / "out")


def test_mean_std_and_ari_between_seeds_by_hand(tmp_path: Path) -> None:
    (tmp_path / "labels").mkdir()
    results = []
    for seed, (acc, labels) in enumerate([(0.5, [0, 0, 1, 1]), (0.7, [1, 1, 0, 0])]):
        np.save(tmp_path / "labels" / f"m-{seed}.npy", labels)
        scores = {"acc": acc, "nmi": acc, "ari": acc, "silhouette": None, "clusters": 3}
        results.append({"method": "m", "seed": seed, **scores, "seconds": 2.0, "memory_mb": 100.0, "protocol": "p"})
    assert seed_ari([tmp_path / "labels" / f"m-{seed}.npy" for seed in (0, 1)]) == [1.0]
    comparison = Comparison(tmp_path, results, {})
    row = ["m", "2", "60.0 ± 10.0", "60.0 ± 10.0", "60.0 ± 10.0", "100.0 ± 0.0", "3", "2.0", "100", "(1)"]
    assert cells(comparison.markdown(), "m") == row
    summary = next(csv.DictReader(comparison.csv().splitlines()))
    assert float(summary["acc_mean"]) == pytest.approx(0.6)
    assert float(summary["acc_std"]) == pytest.approx(0.1)
    assert comparison.to_dict()["methods"][0]["measures"]["seed_ari"] == (1.0, 0.0)


def test_without_matplotlib_there_is_no_plot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    result = {"method": "m", "seed": 0, "acc": 0.5, "nmi": 0.5, "ari": 0.5, "seconds": 1.0, "protocol": "p"}
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "install it with: pip install 'cgmcr2[viz]'" in str(Comparison(tmp_path, [result], {}).draw())
    assert Comparison(tmp_path, [], {}).draw() == "No plot: no run has finished."

"""Clustering: inspection, edits, and the round trip through files."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cgmcr2.clustering import COLUMNS, Clustering
from cgmcr2.clustering.io import BLOCK_ROWS, read_duplicate_of

ODD_NAMES = [
    "line\nbreak.jpg",
    'quote".jpg',
    "a,b.jpg",
    "<script>.jpg",
    "caf\udce9.jpg",
    " lead.jpg",
    "\r.png",
    "雪.png",
    "",
]


def example(n: int = 40, k: int = 4, d: int = 6, seed: int = 0) -> Clustering:
    rng = np.random.default_rng(seed)
    logits = 3 * rng.standard_normal((n, k))
    probabilities = (np.exp(logits) / np.exp(logits).sum(1, keepdims=True)).astype(np.float32)
    Z = rng.standard_normal((n, d))
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    ids = [f"img{i}.jpg" for i in range(n)]
    return Clustering(ids, probabilities.argmax(1), embedding=Z, probabilities=probabilities)


def test_confidence_and_margin_come_from_the_probabilities() -> None:
    c = Clustering(["a", "b"], [0, 2], probabilities=[[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]])
    np.testing.assert_allclose(c.confidence, [0.7, 0.4], rtol=1e-6)
    np.testing.assert_allclose(c.margin, [0.5, 0.1], rtol=1e-6)
    assert c.n_clusters == 3
    assert c.clusters == [0, 2]


def test_representatives_lie_along_the_clusters_main_direction() -> None:
    rng = np.random.default_rng(0)
    along = np.array([1.0, 0, 0, 0]) + 0.05 * rng.standard_normal((20, 4))
    along[::2] *= -1  # a subspace has no sign
    Z = np.vstack([along, [[0, 1, 0, 0]]])
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    c = Clustering([str(i) for i in range(21)], np.zeros(21), embedding=Z)
    order = c.representatives(0, n=21)
    assert order[-1] == 20
    assert abs(Z[order[0], 0]) == pytest.approx(np.abs(Z[:, 0]).max(), abs=5e-3)
    assert len(c.representatives(0, n=3)) == 3


def test_an_uncertain_image_is_not_typical() -> None:
    Z = np.tile([1.0, 0.0], (3, 1))
    c = Clustering(["a", "b", "c"], [0, 0, 0], embedding=Z, confidence=[0.9, 0.3, 0.8], margin=[0.8, 0.1, 0.7])
    assert c.representatives(0).tolist() == [0, 2, 1]


def test_uncertain_is_by_margin_in_one_cluster_or_all() -> None:
    c = example()
    everywhere = c.uncertain(n=5)
    assert np.all(np.diff(c.margin[everywhere]) >= 0)
    assert c.margin[everywhere[0]] == c.margin.min()
    inside = c.uncertain(2, n=100)
    assert set(inside) == set(c.rows(2))


def test_rename_returns_a_new_value() -> None:
    c = example()
    renamed = c.rename(1, "  dogs ").rename("dogs", "hounds")
    assert renamed.names == ["Cluster 0", "hounds", "Cluster 2", "Cluster 3"]
    assert c.names[1] == "Cluster 1"
    assert c != renamed
    with pytest.raises(ValueError, match="read-only"):
        renamed.labels[0] = 3


def test_names_can_be_swapped_at_once() -> None:
    c = Clustering(["a", "b"], [0, 1], names=["dogs", "cats"])
    assert c.with_names(["cats", "dogs"]).names == ["cats", "dogs"]
    with pytest.raises(ValueError, match="Two clusters are called"):
        c.with_names(["cats", "cats"])


def test_merge_keeps_the_other_numbers_and_adds_probabilities() -> None:
    c = example()
    m = c.merge([3, 1], "both")
    assert m.names == ["Cluster 0", "Cluster 1", "Cluster 2", "both"]
    assert m.sizes()[1] == 0
    assert m.sizes()[3] == c.sizes()[[1, 3]].sum()
    np.testing.assert_array_equal(m.rows(2), c.rows(2))
    assert m.probabilities is not None
    assert c.probabilities is not None
    np.testing.assert_allclose(m.probabilities.sum(1), 1, rtol=1e-5)
    taken = np.isin(c.labels, [1, 3])
    np.testing.assert_allclose(m.confidence[taken], c.probabilities[taken][:, [1, 3]].sum(1), rtol=1e-6)
    assert m.merged == {1: 3}
    assert m.merge([0, 3]).merged == {1: 0, 3: 0}  # what was merged into 3 is now in 0


def test_merging_a_cluster_back_leaves_no_cycle() -> None:
    c = Clustering(["a", "b", "c"], [0, 1, 2]).merge([1, 0]).move([0], 0).merge([0, 1])
    assert c.merged == {1: 0}
    assert c.labels.tolist() == [0, 0, 2]


def test_names_that_clusters_get_by_default_are_unused() -> None:
    c = Clustering(["a", "b", "c"], [0, 1, 2], names=["Excluded", "Cluster 2", "x"])
    c = c.exclude([0]).merge([1, 2]).new([1])
    assert c.names == ["Excluded", "Cluster 2", "Cluster 2 (2)", "Excluded (2)", "Cluster 4"]
    assert c.excluded == 3


def test_masks_are_refused_as_rows() -> None:
    c = Clustering(["a", "b"], [0, 1])
    for call in (c.subset, c.exclude):
        with pytest.raises(ValueError, match="Rows must be integers, but got bool"):
            call([True, False])
    assert c.subset([]).ids == []
    assert c.subset([1, 0]).ids == ["b", "a"]


def test_merged_confidence_is_at_most_1() -> None:
    P = np.random.default_rng(0).dirichlet(np.ones(5), size=200).astype(np.float32)
    c = Clustering([str(i) for i in range(200)], P.argmax(1), probabilities=P).merge(range(5))
    assert c.confidence.max() <= 1


def test_merged_probabilities_follow_the_models_numbers() -> None:
    """Mapping the model's answers through ``merged`` gives the merged labels: predict can honour a merge."""
    c = example()
    m = c.merge([0, 2])
    mapped = np.array([m.merged.get(int(label), int(label)) for label in c.labels])
    np.testing.assert_array_equal(mapped, m.labels)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda c: c.rename(1, "Cluster 2"), "Two clusters are called 'Cluster 2'"),
        (lambda c: c.rename(1, "  "), "is empty; give it"),
        (lambda c: c.rename("cats", "dogs"), "no cluster called 'cats'"),
        (lambda c: c.representatives(9), r"no cluster 9; clusters are 0 \.\.\. 3"),
        (lambda c: c.rows(-1), "no cluster -1"),
        (lambda c: c.merge([1, 1]), "at least two different clusters"),
        (lambda c: Clustering(["a", "a"], [0, 1]), "the same id"),
        (lambda c: Clustering(["a"], [0, 1]), r"labels has shape \(2,\), but 1 ids need shape \(1,\)"),
        (lambda c: Clustering(["a"], [-1]), "range from -1 to -1"),
        (lambda c: Clustering(["a"], [3], names=["x"]), "with 1 names"),
        (lambda c: Clustering(["a"], [0], embedding=[1.0]), "embedding has shape"),
        (lambda c: Clustering(["a", "b"], [0, 0], groups=[1, 1]), "groups must hold the first row"),
        (lambda c: Clustering(["a", "b"], [0, 0], groups=[-1, 1]), "groups must hold the first row"),
        (
            lambda c: Clustering(["a"], [0], probabilities=[[1.0, 0]], names=["x"]),
            "probabilities have 2 columns, but there are 1 names",
        ),
    ],
)
def test_bad_input_is_one_clear_sentence(act: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        act(example())  # type: ignore[operator]


def test_saved_and_loaded_is_equal_whatever_the_file_names(tmp_path: Path) -> None:
    n = len(ODD_NAMES)
    c = example(n).merge([0, 1], 'the "first", both')
    c = c._with(ids=ODD_NAMES)
    c.save(tmp_path)
    assert Clustering.load(tmp_path) == c
    assert b"caf\xe9.jpg" in (tmp_path / "labels.csv").read_bytes()  # the original bytes of the file name
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "clusters.csv",
        "clusters.json",
        "embeddings.npy",
        "labels.csv",
        "probabilities.npy",
    ]


@given(
    ids=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), min_size=1, max_size=8, unique=True),
    values=hnp.arrays(np.float32, 8, elements=st.floats(0, 1, width=32)),
)
def test_round_trip_of_any_text_and_any_float(
    tmp_path_factory: pytest.TempPathFactory, ids: list[str], values: np.ndarray
) -> None:
    folder = tmp_path_factory.mktemp("run")
    c = Clustering(ids, np.arange(len(ids)), confidence=values[: len(ids)], margin=values[: len(ids)])
    c.save(folder)
    assert Clustering.load(folder) == c


def test_saving_again_replaces_what_was_there(tmp_path: Path) -> None:
    c = example()
    c.save(tmp_path)
    loaded = Clustering.load(tmp_path)  # its arrays are mapped from the files that are replaced
    changed = loaded.merge([0, 1])
    changed.save(tmp_path)
    assert Clustering.load(tmp_path) == changed
    assert loaded == c
    Clustering(["a"], [0]).save(tmp_path)
    assert Clustering.load(tmp_path).embedding is None


def test_labels_csv_alone_is_enough(tmp_path: Path) -> None:
    c = example().rename(2, "dogs")
    c.save(tmp_path)
    for file in ("clusters.json", "embeddings.npy", "probabilities.npy"):
        (tmp_path / file).unlink()
    loaded = Clustering.load(tmp_path)
    assert loaded.names == c.names
    np.testing.assert_array_equal(loaded.confidence, c.confidence)


def test_labels_csv_is_standard_csv(tmp_path: Path) -> None:
    example(5).save(tmp_path)
    with (tmp_path / "labels.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(COLUMNS)
    assert len(rows) == 5


def test_near_duplicates_are_saved_in_a_column(tmp_path: Path) -> None:
    c = Clustering(["a", "b", "caf\udce9", "d", "e"], [0, 1, 0, 1, 0], groups=[0, 1, 0, 1, 4]).rename(0, "zero")
    assert [rows.tolist() for rows in c.duplicates()] == [[0, 2], [1, 3]]
    assert Clustering(["a", "b"], [0, 1]).duplicates() == []
    c.save(tmp_path)
    with (tmp_path / "labels.csv").open(newline="", encoding="utf-8", errors="surrogateescape") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [*COLUMNS, "duplicate_of"]
    assert [row["duplicate_of"] for row in rows] == ["", "", "a", "b", ""]
    assert Clustering.load(tmp_path) == c
    np.testing.assert_array_equal(read_duplicate_of(tmp_path / "labels.csv"), c.groups)
    table = (tmp_path / "labels.csv").read_bytes()
    (tmp_path / "labels.csv").write_bytes(table.replace(b",b\r\n", b",z\r\n"))
    with pytest.raises(ValueError, match="has a duplicate of 'z', which is not in the table"):
        Clustering.load(tmp_path)


def test_loading_what_is_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"has no labels\.csv"):
        Clustering.load(tmp_path)
    (tmp_path / "labels.csv").write_text("file,label\n1,2\n")
    with pytest.raises(ValueError, match="must have the columns path, cluster"):
        Clustering.load(tmp_path)
    (tmp_path / "labels.csv").write_text("")
    with pytest.raises(ValueError, match="must have the columns"):
        Clustering.load(tmp_path)


def test_empty_clustering(tmp_path: Path) -> None:
    c = Clustering([], [])
    c.save(tmp_path)
    assert Clustering.load(tmp_path) == c
    assert c.clusters == []


def test_to_frame() -> None:
    pytest.importorskip("pandas")
    frame = example().rename(0, "zero").to_frame()
    assert list(frame.columns) == list(COLUMNS)
    assert frame.groupby("cluster")["name"].nunique().max() == 1
    assert (frame[frame["cluster"] == 0]["name"] == "zero").all()
    assert Clustering(["a", "b"], [0, 0], groups=[0, 0]).to_frame()["duplicate_of"].tolist() == ["", "a"]


def test_to_frame_without_pandas_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"cgmcr2\[table\]"):
        example().to_frame()


def test_importing_it_is_light() -> None:
    code = (
        "import sys, cgmcr2.clustering; print([m for m in ('torch', 'pandas', 'sklearn', 'PIL') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_tables_longer_than_a_block_are_read_and_written_in_order(tmp_path: Path) -> None:
    n = BLOCK_ROWS + 3
    rng = np.random.default_rng(0)
    c = Clustering(
        [f"{row}.jpg" for row in range(n)],
        rng.integers(0, 5, n),
        confidence=rng.random(n, np.float32),
        groups=np.r_[np.arange(n - 1), 0],
    )
    c.save(tmp_path)
    assert Clustering.load(tmp_path) == c
    with (tmp_path / "labels.csv").open("a") as file:
        file.write("too,few\n")
    with pytest.raises(ValueError, match="must have the columns"):
        Clustering.load(tmp_path)

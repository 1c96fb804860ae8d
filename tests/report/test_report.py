"""The report page as a file: self-contained, escaped, bounded, and complete with whatever a run has."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cgmcr2._files import write_json
from cgmcr2.clustering import Clustering
from cgmcr2.features.store import FeatureStore
from cgmcr2.images import Catalog
from cgmcr2.report import report_data
from cgmcr2.report.report import write_report
from cgmcr2.report.run import find_features, report_run

EVIL = [
    "</script><script>alert(1)</script>.png",
    '" onerror="alert(1).png',
    "<!--.png",
    "caf\udce9.png",
    "a\nb&amp;.png",
]


def clustering(n: int = 60, k: int = 3, ids: list[str] | None = None) -> Clustering:
    rng = np.random.default_rng(0)
    labels = np.arange(n) % k
    Z = np.eye(8)[labels] + 0.1 * rng.standard_normal((n, 8))
    logits = 4 * np.eye(k)[labels] + rng.standard_normal((n, k))
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = probabilities.argmax(1)
    return Clustering(ids or [f"{i:03}.png" for i in range(n)], labels, embedding=Z, probabilities=probabilities)


class Page(HTMLParser):
    """Elements, attributes and the text of scripts of a page, as a browser would split them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text = ""
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self._inside == "script" and self.scripts:
            self.scripts[-1] += data
        else:
            self.text += data

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""


def read(path: Path) -> tuple[Page, dict[str, Any], dict[str, str]]:
    page = Page(path.read_text(encoding="utf-8"))
    data, thumbnails, _ = page.scripts
    return page, json.loads(data), json.loads(thumbnails)


def unpacked(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), "<u2")


def photos(folder: Path, names: list[str]) -> Catalog:
    for number, name in enumerate(names):
        Image.new("RGB", (40, 30), (number * 3 % 256, 100, 50)).save(folder / name.replace("/", "_"))
    return Catalog.from_source(folder)


def test_the_page_holds_the_run(tmp_path: Path) -> None:
    c = clustering().rename(1, "dogs & cats")
    path = write_report(
        c,
        tmp_path / "out" / "report.html",
        features=np.random.default_rng(0).standard_normal((60, 5)),
        metrics=[{"step": s, "stage": "warm-up", "loss": 3.0 - s} for s in range(3)],
        settings={"source": "photos", "protocol": "fitted on all", "settings": {"gamma": 5.0, "restarts": [1, 2]}},
        errors=[("broken.jpg", "truncated")],
        source="photos",
    )
    page, data, thumbnails = read(path)
    assert thumbnails == {}
    assert data["ids"] == c.ids
    assert data["names"] == ["Cluster 0", "dogs & cats", "Cluster 2"]
    np.testing.assert_array_equal(unpacked(data["labels"]), c.labels)
    np.testing.assert_allclose(unpacked(data["confidence"]) / 10_000, c.confidence, atol=1e-4)
    assert unpacked(data["map"]).shape == (120,)
    for cluster in range(3):
        assert data["typical"][cluster] == c.representatives(cluster, 28).tolist()
        assert data["uncertain"][cluster] == c.uncertain(cluster, 12).tolist()
    for text in (
        "60 images in 3 clusters",
        "photos",
        "fitted on all",
        "gamma",
        "1, 2",
        "broken.jpg",
        "truncated",
        "Loss",
    ):
        assert text in page.text
    images = [attributes for tag, attributes in page.elements if tag == "img"]
    assert len(images) == 3  # |XX'|, |ZZ'|, |Pi Pi'|
    assert all((image["src"] or "").startswith("data:image/png;base64,") for image in images)


def test_the_policy_allows_this_script_and_style_and_nothing_else(tmp_path: Path) -> None:
    path = write_report(clustering(), tmp_path / "report.html")
    text = path.read_text(encoding="utf-8")
    page, _, _ = read(path)
    policy = next(a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy") or ""
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    style = re.search(r"<style>(.*?)</style>", text, re.S)
    assert style
    for kind, content in (("script", page.scripts[-1]), ("style", style[1])):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text)  # nothing is fetched
    assert not any(name.startswith("on") or name == "style" for _, attributes in page.elements for name in attributes)


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    evil = [name.replace("/", "_") for name in EVIL]
    catalog = photos(folder, evil)
    c = clustering(5, 1, ids=EVIL).rename(0, "</script ><b>x")
    c = Clustering(**{**vars(c), "ids": evil})
    path = write_report(
        c,
        tmp_path / "report.html",
        images=catalog,
        source=EVIL[0],
        errors=[(EVIL[0], EVIL[1])],
        settings={EVIL[0]: EVIL[1]},
    )
    page, data, thumbnails = read(path)
    assert len(page.scripts) == 3
    assert data["ids"] == evil
    assert len(thumbnails) == 5
    assert "</script ><b>x" in data["names"]
    assert not set("<>&") & set(page.scripts[0] + page.scripts[1])
    assert all("onerror" not in attributes for _, attributes in page.elements)
    assert b"\xe9" not in path.read_bytes()  # valid UTF-8


def test_thumbnails_and_links_to_the_originals(tmp_path: Path) -> None:
    folder = tmp_path / "my photos"
    folder.mkdir()
    c = clustering(30)
    path = write_report(c, tmp_path / "run" / "report.html", images=photos(folder, c.ids))
    _, data, thumbnails = read(path)
    assert set(thumbnails) == {str(i) for i in range(30)}
    assert data["base"] == "./../my%20photos"
    assert sorted(place for places in data["typical"] for place in places) == list(
        range(30)
    )  # all of them can be paged through


def test_only_some_have_thumbnails_in_a_large_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cgmcr2.report.thumbnails.choose", lambda c, **_: np.array([5, 50, 7]))
    monkeypatch.setattr(report_data, "LISTED", 20)
    folder = tmp_path / "photos"
    folder.mkdir()
    c = clustering()
    page, data, thumbnails = read(write_report(c, tmp_path / "report.html", images=photos(folder, c.ids)))
    assert len(data["ids"]) == 20
    assert {data["ids"][int(place)] for place in thumbnails} == {"005.png", "050.png", "007.png"}
    assert data["sizes"] == c.sizes().tolist()
    assert "A random 20 of 60" in page.text


def test_a_bare_clustering_is_enough(tmp_path: Path) -> None:
    page, data, _ = read(write_report(Clustering(["a", "b"], [0, 3]), tmp_path / "report.html"))
    assert data["map"] is None
    assert data["second"] is None
    assert data["sizes"] == [1, 0, 0, 1]
    assert not any(tag == "canvas" for tag, _ in page.elements)
    read(write_report(Clustering([], []), tmp_path / "empty.html"))


def test_the_same_run_gives_the_same_page(tmp_path: Path) -> None:
    first = write_report(clustering(), tmp_path / "a.html").read_bytes()
    assert write_report(clustering(), tmp_path / "b.html").read_bytes() == first


# ---- from a run folder ----------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run on 30 images with a feature store whose rows are in another order."""
    source = tmp_path / "photos"
    source.mkdir()
    c = clustering(30)
    photos(source, c.ids)
    folder = tmp_path / "run"
    c.save(folder)
    X = np.arange(30 * 4, dtype=np.float32).reshape(30, 4)
    FeatureStore.create(folder / "features", X[::-1], c.ids[::-1])
    write_json(folder / "run.json", {"source": str(source), "protocol": "fitted on all rows", "parameters": {"k": 3}})
    lines = [json.dumps({"step": s, "loss": 1.0 / (s + 1)}) for s in range(5)]
    (folder / "metrics.jsonl").write_text("\n".join(lines) + '\n{"step": 5, "lo')
    return folder


def test_report_of_a_run(run: Path) -> None:
    path = report_run(run)
    assert path == run / "report.html"
    page, data, thumbnails = read(path)
    assert len(thumbnails) == 30
    assert data["base"] == "./../photos"
    assert "fitted on all rows" in page.text
    assert "Loss" in page.text
    assert sum(tag == "img" for tag, _ in page.elements) == 3


def test_features_come_in_the_order_of_the_labels(run: Path) -> None:
    c = Clustering.load(run)
    features = find_features(run, {}, c.ids)
    assert features is not None
    np.testing.assert_array_equal(features[np.array([0, 7])], [[0, 1, 2, 3], [28, 29, 30, 31]])
    assert find_features(run, {}, ["unknown.png"]) is None


def test_images_that_have_gone_are_said_to_be_gone(run: Path, tmp_path: Path) -> None:
    os.rename(tmp_path / "photos", tmp_path / "moved")
    page, _, thumbnails = read(report_run(run))
    assert thumbnails == {}
    assert "Names instead of pictures" in page.text
    _, _, thumbnails = read(report_run(run, tmp_path / "again.html", images=tmp_path / "moved"))
    assert len(thumbnails) == 30
    (tmp_path / "empty").mkdir()
    Image.new("RGB", (3, 3)).save(tmp_path / "empty" / "other.png")
    with pytest.raises(ValueError, match="none of the run's images"):
        report_run(run, images=tmp_path / "empty")


def test_a_run_on_features_has_no_images_and_no_complaint(tmp_path: Path) -> None:
    X = np.random.default_rng(0).standard_normal((60, 5)).astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    c = clustering(60, ids=[str(i) for i in range(60)])
    c.save(tmp_path / "run")
    write_json(tmp_path / "run" / "run.json", {"source": str(tmp_path / "x.npy")})
    page, _, thumbnails = read(report_run(tmp_path / "run"))
    assert thumbnails == {}
    assert "Names instead" not in page.text
    assert sum(tag == "img" for tag, _ in page.elements) == 3


def test_what_is_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="labels"):
        report_run(tmp_path)
    clustering().save(tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(ValueError, match="damaged"):
        report_run(tmp_path)


def test_how_far_to_trust_it_is_on_the_page(tmp_path: Path) -> None:
    choice = {
        "candidates": [2, 3, 4, 6],
        "scores": [0.1, 0.9, 0.2, 0.5],
        "chosen": 3,
        "runners_up": [6],
        "verdict": "3 clusters fit best.",
    }
    c = clustering().with_names(["cats", "dogs", "<b>boats</b>"])
    out = write_report(c, tmp_path / "r.html", settings={"choice": choice, "agreement": 0.873, "k": 3})
    page, data, _ = read(out)
    assert "3 clusters fit best. Other numbers worth a look: 6." in page.text
    assert "87 %" in page.text
    assert "candidates" not in page.text  # the curve is drawn, not listed among the settings
    tree = out.read_text(encoding="utf-8").split('<pre id="tree">')[1].split("</pre>")[0]
    assert sorted(line.strip() for line in tree.splitlines() if "°" not in line) == [
        "&lt;b&gt;boats&lt;/b&gt;",
        "cats",
        "dogs",
    ]
    assert len(unpacked(data["outlier"])) == 60
    top = report_data.of_choice(choice)
    assert top is not None
    assert [mark[2] for mark in top["marks"]] == [3, 6]
    assert top["marks"][0][1] == 0  # the best is drawn at the top


def test_a_run_whose_k_was_given_has_no_curve(tmp_path: Path) -> None:
    text = write_report(Clustering(["a", "b"], [0, 1]), tmp_path / "r.html").read_text(encoding="utf-8")
    assert 'id="choice"' not in text
    assert 'id="tree"' not in text
    assert 'id="facts"' in text

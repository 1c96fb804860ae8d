"""The report page as a file: self-contained, escaped and bounded, with every section that the run has data for."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import numpy as np

from cgmcr2.clustering import Clustering
from cgmcr2.report.limits import PageLimits
from cgmcr2.report.report import write_report

from .pages import clustering, read_page, unpack_rows, write_photos

EVIL = [
    "</script><script>alert(1)</script>.png",
    '" onerror="alert(1).png',
    "<!--.png",
    "caf\udce9.png",
    "a\nb&amp;.png",
]


def test_page_holds_the_data_of_the_run(tmp_path: Path) -> None:
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
    page, data, thumbnails = read_page(path)
    assert thumbnails == {}
    assert data["ids"] == c.ids
    assert data["names"] == ["Cluster 0", "dogs & cats", "Cluster 2"]
    np.testing.assert_array_equal(unpack_rows(data)["labels"], c.labels)
    np.testing.assert_allclose(unpack_rows(data)["confidence"] / 10_000, c.confidence, atol=1e-4)
    assert len(base64.b64decode(data["map"])) == 2 * 2 * 60
    for cluster, entry in enumerate(data["clusters"]):
        assert entry["typical"] == c.representatives(cluster, 28).tolist()
        assert entry["uncertain"] == c.uncertain(cluster, 12).tolist()
    for text in (
        "60 rows in 3 clusters",
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


def test_near_duplicates_on_the_page(tmp_path: Path) -> None:
    groups = np.arange(60)
    groups[[5, 7, 9]], groups[50] = 3, 2
    c = Clustering(clustering().ids, clustering().labels, groups=groups)
    _, data, _ = read_page(write_report(c, tmp_path / "report.html"))
    assert data["duplicates"] == [[3, 5, 7, 9], [2, 50]]
    limits = PageLimits(rows=6, thumbnails=5)
    _, data, _ = read_page(write_report(c, tmp_path / "sample.html", limits=limits))
    assert len(data["duplicates"]) < 2
    assert data["duplicate_groups"] == 2
    _, data, _ = read_page(write_report(clustering(), tmp_path / "none.html"))
    assert data["duplicates"] == []


def test_content_security_policy_admits_only_the_script_and_style_of_the_page(tmp_path: Path) -> None:
    path = write_report(clustering(), tmp_path / "report.html")
    text = path.read_text(encoding="utf-8")
    page, _, _ = read_page(path)
    policy = next(a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy") or ""
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    style = re.search(r"<style>(.*?)</style>", text, re.S)
    assert style
    for kind, content in (("script", page.scripts[-1]), ("style", style[1])):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text)  # nothing is loaded from the network
    assert not any(name.startswith("on") or name == "style" for _, attributes in page.elements for name in attributes)


def test_hostile_names_are_only_text(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    evil = [name.replace("/", "_") for name in EVIL]
    catalog = write_photos(folder, evil)
    c = clustering(5, 1, ids=evil).rename(0, "</script ><b>x")
    path = write_report(
        c,
        tmp_path / "report.html",
        images=catalog,
        source=EVIL[0],
        errors=[(EVIL[0], EVIL[1])],
        settings={EVIL[0]: EVIL[1]},
    )
    page, data, thumbnails = read_page(path)
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
    path = write_report(c, tmp_path / "run" / "report.html", images=write_photos(folder, c.ids))
    _, data, thumbnails = read_page(path)
    assert set(thumbnails) == {str(i) for i in range(30)}
    assert data["base"] == "./../my%20photos"
    assert sorted(row for entry in data["clusters"] for row in entry["typical"]) == list(range(30))


def test_large_sets_are_sampled(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    c = clustering()
    limits = PageLimits(rows=20, thumbnails=3, similarity_rows=10)
    path = write_report(c, tmp_path / "report.html", images=write_photos(folder, c.ids), limits=limits)
    page, data, thumbnails = read_page(path)
    assert len(data["ids"]) == 20
    typical = {c.ids[c.representatives(cluster, 1)[0]] for cluster in range(3)}
    assert {data["ids"][int(index)] for index in thumbnails} == typical
    assert sorted(row for entry in data["clusters"] for row in entry["typical"]) == list(range(20))
    assert [entry["size"] for entry in data["clusters"]] == c.sizes().tolist()
    assert (data["n"], data["total"]) == (20, 60)
    assert "A random sample of 10 images" in page.text


def test_clustering_without_embedding_and_probabilities(tmp_path: Path) -> None:
    _, data, _ = read_page(write_report(Clustering(["a", "b"], [0, 3]), tmp_path / "report.html"))
    assert data["map"] is None
    assert unpack_rows(data)["runner_up"].tolist() == [65535, 65535]
    assert [entry["number"] for entry in data["clusters"]] == [0, 3]
    read_page(write_report(Clustering([], []), tmp_path / "empty.html"))


def test_page_is_reproducible(tmp_path: Path) -> None:
    first = write_report(clustering(), tmp_path / "a.html").read_bytes()
    assert write_report(clustering(), tmp_path / "b.html").read_bytes() == first


def test_choice_of_k_stability_and_hierarchy_are_shown(tmp_path: Path) -> None:
    choice = {
        "candidates": [2, 3, 4, 6],
        "scores": [0.1, 0.9, 0.2, 0.5],
        "chosen": 3,
        "runners_up": [6],
        "verdict": "3 clusters fit best.",
    }
    c = clustering().with_names(["cats", "dogs", "<b>boats</b>"])
    out = write_report(c, tmp_path / "r.html", settings={"choice": choice, "stability": 0.873, "k": 3})
    page, data, _ = read_page(out)
    assert "3 clusters fit best. Other numbers worth a look: 6." in page.text
    assert data["stability"] == 0.873
    assert "candidates" not in page.text  # a chart, not a setting
    tree = out.read_text(encoding="utf-8").split('<pre id="hierarchy">')[1].split("</pre>")[0]
    assert sorted(line.strip() for line in tree.splitlines() if "°" not in line) == [
        "&lt;b&gt;boats&lt;/b&gt;",
        "cats",
        "dogs",
    ]


def test_run_with_given_k_has_no_choice_chart(tmp_path: Path) -> None:
    text = write_report(Clustering(["a", "b"], [0, 1]), tmp_path / "r.html").read_text(encoding="utf-8")
    assert 'id="choice"' not in text
    assert 'id="hierarchy"' not in text
    assert 'id="cluster-table"' in text


def test_page_speaks_of_images_only_if_the_run_has_images(tmp_path: Path) -> None:
    c = Clustering(["a", "b"], [0, 1])
    rows, data, _ = read_page(write_report(c, tmp_path / "rows.html"))
    assert "2 rows in 2 clusters" in rows.text
    assert "image" not in rows.text.lower()
    assert data["item"] == "row"
    moved, data, _ = read_page(write_report(c, tmp_path / "images.html", settings={"encoder_name": "bundled"}))
    assert "2 images in 2 clusters" in moved.text
    assert data["item"] == "image"


def test_a_verdict_of_noise_is_at_the_top_of_the_page(tmp_path: Path) -> None:
    for noise in (False, True):
        choice = {
            "candidates": [2, 3],
            "scores": [0.1, 0.2],
            "chosen": 3,
            "runners_up": [],
            "verdict": "No groups.",
            "noise": noise,
        }
        path = write_report(clustering(), tmp_path / "report.html", settings={"choice": choice})
        text = path.read_text(encoding="utf-8")
        assert ('role="note">No groups.' in text) is noise

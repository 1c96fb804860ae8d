"""name as a user types it."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cgmcr2 import Clustering
from cgmcr2.cli import run as program
from cgmcr2.runs.names import apply_names, read_names, suggest_run_names
from cgmcr2.words import read_vocabulary


@pytest.fixture
def run(reading_run: Path, tmp_path: Path) -> Path:
    return shutil.copytree(reading_run, tmp_path / "run")


@pytest.fixture
def words(tmp_path: Path) -> Path:
    path = tmp_path / "words.txt"
    path.write_text("red|crimson\ngreen\nblue\ngrey\n")
    return path


def right_names(run: Path) -> bool:
    """Whether the clusters are named by the colour of their images, which is the number of the file modulo 3."""
    clustering = Clustering.load(run)
    colours = [("red", "green", "blue")[int(Path(id).stem) % 3] for id in clustering.ids]
    return [clustering.names[label] for label in clustering.labels] == colours


def test_suggest_then_apply_then_undo(run: Path, words: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program("name", run, "--vocabulary", words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["CLUSTER", "SIZE", "NAME", "FIT", "WORDS"]
    assert lines[-1].startswith("3 clusters named; rename them with --apply.")
    assert Clustering.load(run).names == ["Cluster 0", "Cluster 1", "Cluster 2"]
    assert program("name", run, "--vocabulary", words, "--apply") == 0
    assert right_names(run)
    names = read_names(run)
    assert names is not None
    assert {suggestion.name for suggestion in names.clusters} == {"red", "green", "blue"}
    assert all(len(suggestion.words) == 4 for suggestion in names.clusters)
    assert len(names.groups) == 1
    assert len(list((run / ".text").iterdir())) == 1
    assert program("edit", run, "undo") == 0
    assert Clustering.load(run).names == ["Cluster 0", "Cluster 1", "Cluster 2"]
    assert program("doctor", run) == 0


def test_names_that_someone_gave_are_kept(run: Path, words: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program("edit", run, "rename", 0, "blue") == 0
    capsys.readouterr()
    assert program("name", run, "--vocabulary", words, "--apply", "--json") == 0
    output = json.loads(capsys.readouterr().out)
    assert output["applied"]
    assert [suggestion["cluster"] for suggestion in output["clusters"]] == [1, 2]
    names = Clustering.load(run).names
    assert names[0] == "blue"
    assert "blue" not in names[1:]
    assert program("name", run, "--vocabulary", words, "--apply", "--all", "-q") == 0  # clusters exchange their names
    assert right_names(run)


def test_names_of_empty_clusters_are_not_given_again(run: Path, words: Path) -> None:
    clusters = Clustering.load(run)
    first = [id for id, label in zip(clusters.ids, clusters.labels, strict=True) if label == 0]
    assert program("name", run, "--vocabulary", words, "--apply") == 0
    word = Clustering.load(run).names[0]
    assert program("edit", run, "new", "others", *first) == 0  # now the named cluster is empty
    assert program("name", run, "--vocabulary", words, "--apply", "--all") == 0
    assert word not in Clustering.load(run).names[1:]


def test_text_embeddings_for_features(fitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = shutil.copytree(fitted, tmp_path / "run")
    assert program("name", folder) == 2
    assert "features of an unknown model" in capsys.readouterr().err
    np.savez(tmp_path / "words.npz", names=[f"word {i}" for i in range(64)], embeddings=np.eye(64))
    assert program("name", folder, "--text-embeddings", tmp_path / "words.npz", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["clusters"]) == len(Clustering.load(folder).clusters)
    np.savez(tmp_path / "wide.npz", names=["word"], embeddings=np.ones((1, 7)))
    assert program("name", folder, "--text-embeddings", tmp_path / "wide.npz") == 2
    assert "width 7, but the image features have width 64" in capsys.readouterr().err


def test_a_second_encoder_reads(
    photo_run: Path, tmp_path: Path, words: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(photo_run, tmp_path / "run")
    assert program("name", folder, "--vocabulary", words) == 2
    assert "The encoder colours does not read text; give an encoder that reads text" in capsys.readouterr().err
    assert program("name", folder, "--vocabulary", words, "--reader", "reading-colours", "--json") == 0
    output = json.loads(capsys.readouterr().out)
    assert output["reader"] == "reading-colours"
    clustering = Clustering.load(folder)
    for suggestion in output["clusters"]:
        colours = {
            ("red", "green", "blue")[int(clustering.ids[row][:2]) % 3] for row in clustering.rows(suggestion["cluster"])
        }
        assert suggestion["words"][0][0] in colours


def test_options_that_exclude_each_other(run: Path, words: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program("name", run, "--reader", "colours", "--namer", "http://localhost:1") == 2
    assert "exclude each other" in capsys.readouterr().err
    assert program("name", run, "--vocabulary", words, "--namer", "http://localhost:1") == 2
    assert "--vocabulary needs an encoder" in capsys.readouterr().err


class Model(BaseHTTPRequestHandler):
    """A fake server of a vision language model: names each contact sheet by its brightest channel."""

    requests: list[dict[str, Any]]

    def do_GET(self) -> None:
        self._answer({"data": [{"id": "eyes-7b"}]})

    def do_POST(self) -> None:
        import base64
        import io

        from PIL import Image

        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.requests.append(request)
        url = request["messages"][0]["content"][1]["image_url"]["url"]
        sheet = Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))
        colour = np.asarray(sheet, dtype=float).mean((0, 1)).argmax()
        self._answer({"choices": [{"message": {"content": f'"{("red", "green", "blue")[colour]}."\nBecause'}}]})

    def _answer(self, content: dict[str, Any]) -> None:
        data = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    handler = type("Handler", (Model,), {"requests": []})
    http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{http.server_port}", handler.requests
    http.shutdown()
    http.server_close()


def test_a_language_model_names_contact_sheets(
    run: Path, server: tuple[str, list[dict[str, Any]]], capsys: pytest.CaptureFixture[str]
) -> None:
    url, requests = server
    assert program("name", run, "--namer", url, "--yes", "--apply") == 0
    assert f"This sends 3 contact sheets with up to 25 small images of a cluster each to {url}/v1." in (
        capsys.readouterr().err
    )
    assert right_names(run)
    assert [request["model"] for request in requests] == ["eyes-7b"] * 3


def test_nothing_is_sent_without_consent(
    run: Path,
    server: tuple[str, list[dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url, requests = server
    monkeypatch.setattr("typer.confirm", lambda *_, **__: False)
    assert program("name", run, "--namer", url) == 1
    assert requests == []
    assert not (run / "names.json").exists()


def test_errors_of_the_server(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program("name", run, "--namer", "http://127.0.0.1:9", "--yes") == 2
    assert "cannot be reached" in capsys.readouterr().err
    assert program("name", run, "--namer", "file:///etc/passwd", "--yes") == 2
    assert "is not the address of a server" in capsys.readouterr().err


def test_names_for_clusters_that_were_edited_since_are_refused(run: Path, words: Path) -> None:
    names = suggest_run_names(run, vocabulary=read_vocabulary(words), rename_all=True)
    assert program("edit", run, "merge", 0, 1) == 0
    with pytest.raises(ValueError, match="were edited after these names were suggested"):
        apply_names(run, names)


def test_all_clusters_have_names(run: Path, words: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for cluster in range(3):
        assert program("edit", run, "rename", cluster, f"mine {cluster}") == 0
    assert program("name", run, "--vocabulary", words, "--apply") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "All clusters have names; name them again with --all."
    assert program("name", run, "--namer", "http://localhost:9") == 0  # nothing to ask, nothing is sent
    assert "This sends" not in capsys.readouterr().err


def test_a_language_model_cannot_see_the_images_of_features(fitted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program("name", fitted, "--namer", "http://localhost:9", "--yes") == 2
    error = capsys.readouterr().err
    assert "was fitted on features, so its images are not known" in error
    assert "This sends" not in error


def test_a_file_that_holds_no_embeddings(run: Path, words: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program("name", run, "--text-embeddings", words) == 2
    assert "cannot be read; give an .npz file with the arrays names and embeddings" in capsys.readouterr().err

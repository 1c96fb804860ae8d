"""Downloads from a local server, complete, interrupted and wrong."""

from __future__ import annotations

import dataclasses
import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cgmcr2.datasets import dataset_info, download_dataset, fetch, load_dataset
from cgmcr2.datasets.info import Download

CONTENT = bytes(range(256)) * 5000
MD5 = hashlib.md5(CONTENT).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    supports_ranges = True
    max_bytes: int | None = None  # length after which the connection is closed
    ranges: list[str | None]  # Range header of each request


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        requested = self.headers.get("Range")
        self.server.ranges.append(requested)
        if self.path != "/file.bin":
            self.send_error(404)
            return
        start = int(requested.removeprefix("bytes=").rstrip("-")) if requested and self.server.supports_ranges else 0
        if start >= len(CONTENT):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}")
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        self.wfile.write(CONTENT[start : self.server.max_bytes])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as server:
        server.ranges = []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def url(server: Server, name: str = "file.bin") -> str:
    return f"http://127.0.0.1:{server.server_address[1]}/{name}"


def test_file_is_downloaded_once(server: Server, tmp_path: Path) -> None:
    for _ in range(2):
        path = fetch(url(server), tmp_path / "new" / "file.bin", md5=MD5)
    assert path.read_bytes() == CONTENT
    assert server.ranges == [None]
    assert [file.name for file in path.parent.iterdir()] == ["file.bin"]


def test_interrupted_download_is_resumed(server: Server, tmp_path: Path) -> None:
    server.max_bytes = 300_000
    with pytest.raises(OSError, match=r"stopped after 300,000 of 1,280,000 bytes: try again"):
        fetch(url(server), tmp_path / "file.bin", md5=MD5)
    assert not (tmp_path / "file.bin").exists()
    server.max_bytes = None
    assert fetch(url(server), tmp_path / "file.bin", md5=MD5).read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=300000-"]


def test_server_without_range_requests(server: Server, tmp_path: Path) -> None:
    server.supports_ranges = False
    (tmp_path / "file.bin.part").write_bytes(b"something else")
    assert fetch(url(server), tmp_path / "file.bin", md5=MD5).read_bytes() == CONTENT


def test_complete_part_is_renamed(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    assert fetch(url(server), tmp_path / "file.bin", md5=MD5).read_bytes() == CONTENT


def test_wrong_part_is_detected_by_its_checksum_and_deleted(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(b"other content")
    with pytest.raises(OSError, match=r"instead of the published .* deleted, try again"):
        fetch(url(server), tmp_path / "file.bin", md5=MD5)
    assert list(tmp_path.iterdir()) == []
    assert fetch(url(server), tmp_path / "file.bin", md5=MD5).read_bytes() == CONTENT


def test_existing_file_with_a_wrong_checksum_is_kept(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin").write_bytes(b"mine")
    with pytest.raises(ValueError, match="is not the official file"):
        fetch(url(server), tmp_path / "file.bin", md5=MD5)
    assert (tmp_path / "file.bin").read_bytes() == b"mine"
    assert server.ranges == []


def test_missing_file_and_unreachable_server(server: Server, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="the server answers 404"):
        fetch(url(server, "other"), tmp_path / "other", md5=MD5)
    with pytest.raises(OSError, match="cannot be downloaded"):
        fetch("http://127.0.0.1:9/file.bin", tmp_path / "other", md5=MD5)
    assert not (tmp_path / "other").exists()


def test_load_downloads_missing_files_only_on_request(server: Server, tmp_path: Path) -> None:
    info = dataclasses.replace(dataset_info("cifar10"), downloads=(Download(url(server), MD5),))
    with pytest.raises(FileNotFoundError, match="enable download"):
        load_dataset(info, tmp_path)
    assert server.ranges == []
    with pytest.raises(FileNotFoundError, match="cifar-10-python"):  # the file of this server is not CIFAR
        load_dataset(info, tmp_path, download=True)
    assert (tmp_path / "cifar10" / "file.bin").read_bytes() == CONTENT


def test_error_explains_how_to_obtain_imagenet(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"sign in at https://image-net\.org"):
        download_dataset(dataset_info("imagenet"), tmp_path)
    with pytest.raises(FileNotFoundError, match=r"sign in at https://image-net\.org"):
        load_dataset("imagenet", tmp_path, download=True)


def test_download_is_logged(server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="cgmcr2"):
        fetch(url(server), tmp_path / "file.bin", md5=MD5)
    assert f"Downloading {url(server)} to {tmp_path / 'file.bin'}" in caplog.messages

from __future__ import annotations

import dataclasses
import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cgmcr2.datasets import dataset_info, download_dataset, fetch, load_dataset
from cgmcr2.datasets.facts import Download

CONTENT = bytes(range(256)) * 5000
MD5 = hashlib.md5(CONTENT).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    ranges = True  # whether it can send a part
    cut: int | None = None  # break off after so many bytes
    asked: list[str | None]


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.asked.append(wanted)
        if self.path != "/file.bin":
            self.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.server.ranges else 0
        if start >= len(CONTENT):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}")
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        self.wfile.write(CONTENT[start : self.server.cut])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as server:
        server.asked = []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def address(server: Server, name: str = "file.bin") -> str:
    return f"http://127.0.0.1:{server.server_address[1]}/{name}"


def test_a_file_arrives_whole_and_is_not_fetched_twice(server: Server, tmp_path: Path) -> None:
    for _ in range(2):
        path = fetch(address(server), tmp_path / "new" / "file.bin", md5=MD5)
    assert path.read_bytes() == CONTENT
    assert server.asked == [None]
    assert [file.name for file in path.parent.iterdir()] == ["file.bin"]


def test_what_broke_off_goes_on(server: Server, tmp_path: Path) -> None:
    server.cut = 300_000
    with pytest.raises(OSError, match=r"broke off after 300,000 of 1,280,000 bytes: start again"):
        fetch(address(server), tmp_path / "file.bin", md5=MD5)
    assert not (tmp_path / "file.bin").exists()
    server.cut = None
    assert fetch(address(server), tmp_path / "file.bin", md5=MD5).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=300000-"]


def test_a_server_without_ranges_sends_all_again(server: Server, tmp_path: Path) -> None:
    server.ranges = False
    (tmp_path / "file.bin.part").write_bytes(b"something else")
    assert fetch(address(server), tmp_path / "file.bin", md5=MD5).read_bytes() == CONTENT


def test_a_whole_part_only_gets_its_name(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    assert fetch(address(server), tmp_path / "file.bin", md5=MD5).read_bytes() == CONTENT


def test_a_wrong_start_is_found_by_the_checksum_and_removed(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(b"not the start")
    with pytest.raises(OSError, match="is published: it was removed"):
        fetch(address(server), tmp_path / "file.bin", md5=MD5)
    assert list(tmp_path.iterdir()) == []
    assert fetch(address(server), tmp_path / "file.bin", md5=MD5).read_bytes() == CONTENT


def test_a_wrong_file_at_the_place_is_told_and_kept(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin").write_bytes(b"mine")
    with pytest.raises(ValueError, match="is not the official file"):
        fetch(address(server), tmp_path / "file.bin", md5=MD5)
    assert (tmp_path / "file.bin").read_bytes() == b"mine"
    assert server.asked == []


def test_no_file_and_no_server_are_told(server: Server, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="the server answers 404"):
        fetch(address(server, "other"), tmp_path / "other", md5=MD5)
    with pytest.raises(OSError, match="cannot be downloaded"):
        fetch("http://127.0.0.1:9/file.bin", tmp_path / "other", md5=MD5)
    assert not (tmp_path / "other").exists()


def test_load_downloads_only_what_is_missing(server: Server, tmp_path: Path) -> None:
    info = dataclasses.replace(dataset_info("cifar10"), downloads=(Download(address(server), MD5),))
    with pytest.raises(FileNotFoundError, match="download=True"):
        load_dataset("cifar10", tmp_path, _info=info)
    assert server.asked == []
    with pytest.raises(FileNotFoundError, match="cifar-10-python"):  # what this server gives is no CIFAR
        load_dataset("cifar10", tmp_path, download=True, _info=info)
    assert (tmp_path / "cifar10" / "file.bin").read_bytes() == CONTENT


def test_imagenet_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"sign in at https://image-net\.org"):
        download_dataset(dataset_info("imagenet"), tmp_path)
    with pytest.raises(FileNotFoundError, match=r"sign in at https://image-net\.org"):
        load_dataset("imagenet", tmp_path, download=True)

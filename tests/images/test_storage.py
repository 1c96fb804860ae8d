"""Files on this machine and objects at URLs: retries, reasons, secrets."""

from __future__ import annotations

import os
import pickle
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import fsspec
import pytest

from cgmcr2.images import Catalog, iter_decoded
from cgmcr2.images.sources import ObjectSource
from cgmcr2.images.storage import Retry, StorageError, TruncatedError, absolute_source, describe_error, redact


class StatusError(Exception):
    def __init__(self, status: int) -> None:
        self.status = status


@pytest.fixture
def memory() -> Iterator[fsspec.AbstractFileSystem]:
    fs = fsspec.filesystem("memory")
    fs.store.clear()
    fs.pseudo_dirs[:] = [""]
    yield fs
    fs.store.clear()


@pytest.mark.parametrize(
    ("error", "attempts"),
    [
        (StatusError(503), 4),
        (StatusError(429), 4),
        (StatusError(404), 1),
        (StatusError(403), 1),
        (StatusError(400), 1),
        (TimeoutError(), 4),
        (ConnectionResetError(), 4),
        (TruncatedError("truncated"), 4),
        (FileNotFoundError(), 1),
        (PermissionError(), 1),
        (ImportError(), 1),
    ],
    ids=lambda value: (
        f"{type(value).__name__}-{getattr(value, 'status', '')}" if isinstance(value, Exception) else None
    ),
)
def test_only_transient_failures_are_retried(error: Exception, attempts: int) -> None:
    calls = []

    def request() -> None:
        calls.append(1)
        raise error

    with pytest.raises(StorageError):
        Retry(attempts=4, delay=0).call(request)
    assert len(calls) == attempts


def test_delays_double(monkeypatch: pytest.MonkeyPatch) -> None:
    delays: list[float] = []
    monkeypatch.setattr("time.sleep", delays.append)
    monkeypatch.setattr("random.uniform", lambda low, high: 1.0)

    def request() -> None:
        raise TimeoutError

    with pytest.raises(StorageError, match="did not answer in time, 4 times in a row"):
        Retry(attempts=4, delay=0.5).call(request)
    assert delays == [0.5, 1, 2]


def test_failure_that_fsspec_reports_as_a_missing_file() -> None:
    missing = FileNotFoundError("https://host/a.jpg")
    missing.__cause__ = StatusError(503)
    assert describe_error(missing) == ("the server answered with HTTP status 503", True)


def test_reasons_contain_no_secrets() -> None:
    error = ConnectionError("GET https://user:secret@host/a.jpg?X-Amz-Signature=secret&x=1 refused")
    reason, _ = describe_error(error)
    assert "secret" not in reason
    assert "https://host/a.jpg" in reason
    assert redact("s3://key:secret@bucket/photos") == "s3://bucket/photos"
    assert redact("why? see s3://bucket/a b.jpg") == "why? see s3://bucket/a b.jpg"


def test_absolute_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute_source("photos") == str(tmp_path.resolve() / "photos")
    assert absolute_source("https://host/list.txt?sig=secret") == "https://host/list.txt"


def test_catalog_of_a_url_is_that_of_the_folder(
    tmp_path: Path, memory: fsspec.AbstractFileSystem, png: Callable[..., bytes], red: Callable[[Catalog], list[int]]
) -> None:
    for number, name in enumerate(["b/2.png", "a.png", "b/1.png", ".hidden/x.png", "b/Thumbs.db"]):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(png(number))
        memory.pipe(f"/photos/{name}", png(number))
    remote, local = Catalog.from_source("memory://photos"), Catalog.from_source(tmp_path)
    assert remote.ids == local.ids == ["a.png", "b/1.png", "b/2.png"]
    assert remote.sizes.tolist() == local.sizes.tolist()
    assert red(pickle.loads(pickle.dumps(remote))) == red(local)


def test_object_that_is_shorter_than_listed_is_truncated(
    memory: fsspec.AbstractFileSystem, png: Callable[..., bytes]
) -> None:
    memory.pipe("/photos/a.png", png(1))
    memory.pipe("/photos/b.png", png(2))
    catalog = Catalog.from_source("memory://photos")
    assert isinstance(catalog.source, ObjectSource)
    catalog.source.retry = Retry(attempts=2, delay=0)
    memory.pipe("/photos/b.png", png(2)[:30])
    results = dict(iter_decoded(catalog, lambda image: image.size))
    assert results[0] == (5, 4)
    assert results[1] == f"truncated: 30 of {len(png(2))} bytes were received, 2 times in a row"


def test_archive_at_a_url(
    tmp_path: Path, memory: fsspec.AbstractFileSystem, png: Callable[..., bytes], red: Callable[[Catalog], list[int]]
) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for number in range(3):
            archive.writestr(f"{number}.png", png(number))
    memory.pipe("/a.zip", (tmp_path / "a.zip").read_bytes())
    catalog = Catalog.from_source("memory://a.zip")
    assert catalog.ids == ["0.png", "1.png", "2.png"]
    assert red(catalog) == [0, 1, 2]


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        ("memory://absent", FileNotFoundError, r"memory://absent cannot be read: does not exist\."),
        ("nonsense://bucket/photos", ValueError, "Protocol not known: nonsense"),
    ],
)
def test_urls_that_cannot_be_opened(
    memory: fsspec.AbstractFileSystem, url: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Catalog.from_source(url)


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def url_to_fs(url: str, **options: object) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec, "url_to_fs", url_to_fs)
    with pytest.raises(ImportError, match=r"s3:// URLs needs another package: pip install 'cgmcr2\[cloud\]'"):
        Catalog.from_source("s3://bucket/photos")


def test_list_of_urls_and_local_paths(
    tmp_path: Path, memory: fsspec.AbstractFileSystem, png: Callable[..., bytes], red: Callable[[Catalog], list[int]]
) -> None:
    memory.pipe("/x/a.png", png(1))
    (tmp_path / "b.png").write_bytes(png(2))
    (tmp_path / "list.txt").write_text("b.png\nmemory://x/a.png\nmemory://x/a.png\n")
    catalog = Catalog.from_source(tmp_path / "list.txt")
    assert catalog.ids == ["b.png", "memory://x/a.png"]
    assert red(catalog) == [2, 1]
    memory.pipe("/x/list.csv", b"path,label\na.png,3\n/etc/hostname,4\n")
    remote = Catalog.from_source("memory://x/list.csv")
    assert remote.ids == ["a.png", "/etc/hostname"]
    assert [value for _, value in iter_decoded(remote, lambda image: image.size)] == [(5, 4), "does not exist"]


def test_list_of_signed_https_urls(
    tmp_path: Path, png: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("aiohttp", reason="needs the extra cloud")
    for number in range(3):
        (tmp_path / f"{number}.png").write_bytes(png(number))

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments, directory=os.fspath(tmp_path))  # type: ignore[arg-type]

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        base = f"http://127.0.0.1:{server.server_port}"
        names = ["0.png?sig=secret", "1.png?v=1", "1.png?v=2", "absent.png?sig=secret"]
        (tmp_path / "list.txt").write_text("\n".join(f"{base}/{name}" for name in names))
        catalog = Catalog.from_source(tmp_path / "list.txt")
        results = [value for _, value in iter_decoded(catalog, lambda image: image.getpixel((0, 0))[0])]  # type: ignore[index]
        one = Catalog.from_source(f"{base}/2.png?sig=secret")
        assert results == [0, 1, 1, "does not exist"]
        assert [image.getpixel((0, 0))[0] for _, image in iter_decoded(one, lambda image: image)] == [2]  # type: ignore
    finally:
        server.shutdown()
    assert catalog.ids[0] == f"{base}/0.png"
    assert len(set(catalog.ids)) == 4
    assert "secret" not in " ".join([*catalog.ids, *one.ids, repr(catalog), repr(one), *capfd.readouterr()])

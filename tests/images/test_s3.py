"""Images on an S3 server that throttles, stalls and truncates; benchmarks/s3_faults.py does more."""

from __future__ import annotations

import csv
import itertools
import json
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("s3fs", reason="needs the extra cloud")
pytest.importorskip("moto.server", reason="needs moto[server]")

import fsspec

from cgmcr2.cli import run
from cgmcr2.images import Catalog, iter_decoded
from cgmcr2.images.sources import ObjectSource
from cgmcr2.images.storage import Retry

from ..colours import write_photos
from ..faulty_s3 import BUCKET, FaultyS3, faulty_s3

URL = f"s3://{BUCKET}/photos"


@pytest.fixture(scope="module")
def server(png: Callable[..., bytes]) -> Iterator[tuple[FaultyS3, Any]]:
    """S3 server with six images under photos/, whose red value is their number."""
    with faulty_s3() as (faults, client):
        for number in range(6):
            client.put_object(Bucket=BUCKET, Key=f"photos/{number}.png", Body=png(number))
        yield faults, client


@pytest.fixture
def faults(server: tuple[FaultyS3, Any]) -> Iterator[FaultyS3]:
    yield server[0]
    server[0].faults.clear()
    server[0].injected.clear()
    server[0].requests.clear()
    fsspec.get_filesystem_class("s3").clear_instance_cache()


@pytest.fixture
def put(server: tuple[FaultyS3, Any]) -> Callable[[str, bytes], Any]:
    return lambda key, body: server[1].put_object(Bucket=BUCKET, Key=key, Body=body)


def open_without_delay(url: str, attempts: int = 3) -> Catalog:
    catalog = Catalog.from_source(url)
    assert isinstance(catalog.source, ObjectSource)
    catalog.source.retry = Retry(attempts=attempts, delay=0)
    return catalog


def red_values(catalog: Catalog) -> list[Any]:
    return [value for _, value in iter_decoded(catalog, lambda image: image.getpixel((0, 0))[0])]  # type: ignore[index]


def test_prefix_is_listed_like_a_folder(faults: FaultyS3, put: Callable[..., Any], png: Callable[..., bytes]) -> None:
    for key in ("folder/", "folder/.DS_Store", "folder/empty.png", "folders/x.png"):
        put(key, b"")
    put("folder/sub/a b+c.png", png(7))
    catalog = Catalog.from_source(f"s3://{BUCKET}/folder/")
    assert catalog.ids == ["empty.png", "sub/a b+c.png"]
    assert red_values(pickle.loads(pickle.dumps(catalog))) == ["the file is empty", 7]


def test_listing_in_pages_and_stamps_that_follow_the_content(
    faults: FaultyS3, put: Callable[..., Any], png: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        put(f"pages/{number}.png", png(number))
    url = f"s3://{BUCKET}/pages"
    first = Catalog.from_source(url)
    put("pages/2.png", png(200))
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "2")
    faults.requests.clear()
    second = Catalog.from_source(url)
    assert faults.requests[""] >= 2
    assert second.ids == first.ids
    assert (second.stamps != first.stamps).tolist() == [False, False, True, False]


@pytest.mark.parametrize("fault", ["503", "cut", "short"])
def test_transient_failures_are_retried(faults: FaultyS3, fault: str) -> None:
    for number in (0, 2, 4):
        faults.plan(f"photos/{number}.png", [fault, fault])
    assert red_values(open_without_delay(URL)) == list(range(6))
    assert faults.injected[fault] == 6


def test_lasting_failures_are_listed_and_nothing_else_is(
    faults: FaultyS3, server: tuple[FaultyS3, Any], put: Callable[..., Any], png: Callable[..., bytes]
) -> None:
    for number in range(6):
        put(f"lasting/{number}.png", png(number))
    catalog = open_without_delay(f"s3://{BUCKET}/lasting")
    faults.plan("lasting/1.png", itertools.repeat("503"))
    faults.plan("lasting/2.png", itertools.repeat("short"))
    server[1].delete_object(Bucket=BUCKET, Key="lasting/3.png")
    put("lasting/4.png", b"no image" * 10)
    values = red_values(catalog)
    assert values[1] == "the server answered with HTTP status 503, 3 times in a row"
    assert values[2].startswith("truncated: ")
    assert values[3:5] == ["does not exist", "not an image, or an unsupported image format"]
    assert (values[0], values[5]) == (0, 5)
    # One policy: neither botocore nor s3fs repeats requests of its own, and a missing object is requested once.
    assert [faults.requests[f"lasting/{number}.png"] for number in range(4)] == [1, 3, 3, 1]


def test_no_answer_in_time(faults: FaultyS3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fsspec.config.conf, "s3", {"config_kwargs": {"read_timeout": 1}})
    faults.plan("photos/3.png", ["slow"])
    faults.plan("photos/4.png", ["slow", "slow"])
    values = red_values(open_without_delay(URL, attempts=2))
    assert values[4] == "the server did not answer in time, 2 times in a row"
    assert [*values[:4], values[5]] == [0, 1, 2, 3, 5]


def test_listing_is_retried(faults: FaultyS3) -> None:
    faults.plan("", ["503"])
    assert len(Catalog.from_source(URL)) == 6
    assert faults.injected["503"] == 1


@pytest.mark.parametrize(
    ("url", "message"),
    [(f"s3://{BUCKET}/absent", "does not exist"), ("s3://no-such-bucket/photos", "does not exist")],
)
def test_missing_prefixes_are_one_sentence(
    faults: FaultyS3, url: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("embed", url, "-o", tmp_path / "store") == 2
    captured = capsys.readouterr()
    assert captured.err == f"cgmcr2: {url} cannot be read: {message}.\n"


def test_missing_credentials_are_one_sentence(
    faults: FaultyS3, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    assert run("embed", URL, "-o", tmp_path / "store") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "no credentials were found" in error


def test_embed_from_s3_equals_embed_from_a_folder(
    faults: FaultyS3, put: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_photos(tmp_path / "photos", 6)
    for path in sorted(folder.iterdir()):
        put(f"colours/{path.name}", path.read_bytes())
    put("colours/broken.png", b"no image")
    faults.plan("colours/03.png", ["503"])
    command = ("--encoder", "colours", "--json", "-q", "-o")
    assert run("embed", f"s3://{BUCKET}/colours", *command, tmp_path / "remote") == 0
    output = json.loads(capsys.readouterr().out)
    assert (output["rows"], output["unreadable"]) == (6, 1)
    with open(tmp_path / "remote" / "errors.csv", encoding="utf-8", newline="") as file:
        assert [row[0] for row in csv.reader(file)][1:] == ["broken.png"]
    assert run("embed", folder, *command, tmp_path / "local") == 0
    remote, local = (tmp_path / name / "shard-00000.npy" for name in ("remote", "local"))
    assert remote.read_bytes() == local.read_bytes()

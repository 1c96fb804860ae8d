"""Shards that Ray writes: the same bytes as without Ray, also if workers die."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cgmcr2._progress import ProgressBar
from cgmcr2.encoders import load_encoder
from cgmcr2.features import extract
from cgmcr2.features.coverage import Coverage
from cgmcr2.features.manifest import Manifest
from cgmcr2.features.ray_engine import write_with_ray
from cgmcr2.features.shard_writer import ShardWriter
from cgmcr2.images import Catalog

pytestmark = pytest.mark.xdist_group("ray")
ENCODER = "bundled?size=32"


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """Ray with two workers on this machine."""
    module = pytest.importorskip("ray")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        module.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    except Exception as error:  # Ray waits at most 15 s for its own processes
        pytest.skip(f"Ray could not be started: {error}")
    yield module
    module.shutdown()


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty images and a damaged file."""
    folder = tmp_path_factory.mktemp("photos")
    random = np.random.default_rng(0)
    for number in range(20):
        Image.fromarray(random.integers(0, 256, (40, 50, 3), np.uint8)).save(folder / f"{number:02}.png")
    (folder / "07.png").write_bytes(b"damaged")
    return folder


@pytest.fixture(scope="module")
def expected(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Files of the store that is written without Ray."""
    store = tmp_path_factory.mktemp("local") / "store"
    extract(Catalog.from_source(photos), load_encoder(ENCODER), store, shard_size=6, progress=False)
    return contents(store)


def contents(store: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in store.iterdir()}


def extract_with_ray(catalog: Catalog, store: Path, **options: Any) -> None:
    extract(catalog, load_encoder(ENCODER), store, shard_size=6, progress=False, engine="ray", **options)


@pytest.mark.parametrize("workers", [1, None])
def test_bytes_are_those_of_the_local_engine(
    ray: Any, photos: Path, expected: dict[str, bytes], tmp_path: Path, workers: int | None
) -> None:
    extract_with_ray(Catalog.from_source(photos), tmp_path / "store", num_workers=workers)
    assert contents(tmp_path / "store") == expected
    assert len(expected) == 9  # four shards of two files, and the manifest


def kill_worker_at(catalog: Catalog, index: int, marker: Path) -> None:
    """Make the process that reads an image kill itself, until ``marker`` exists."""

    class Killer:  # a local class, because workers cannot import this module
        sequential = False

        def __init__(self, source: Any) -> None:
            self.source = source

        def load(self, position: int, id: str) -> Any:
            if position == index and not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return self.source.load(position, id)

    catalog.source = Killer(catalog.source)


def test_shard_of_a_killed_worker_is_computed_again(
    ray: Any, photos: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    catalog = Catalog.from_source(photos)
    kill_worker_at(catalog, 9, tmp_path / "killed")
    extract_with_ray(catalog, tmp_path / "store")
    assert (tmp_path / "killed").exists()
    assert contents(tmp_path / "store") == expected


def test_shard_whose_worker_always_dies_is_named(ray: Any, photos: Path, tmp_path: Path) -> None:
    catalog, encoder = Catalog.from_source(photos), load_encoder(ENCODER)
    kill_worker_at(catalog, 9, tmp_path / "killed")
    manifest = Manifest(encoder.name, encoder.fingerprint, "", encoder.dim, "float32", 6)
    parts = Coverage(tmp_path, catalog).plan(6)
    with pytest.raises(ChildProcessError, match=r"workers of 1 shards, such as 1, died 1 times each"):
        write_with_ray(ShardWriter(tmp_path, manifest, catalog), encoder, parts, ProgressBar(), max_retries=0)
    assert len(list(tmp_path.glob("shard-*.json"))) == 3  # the other shards


def test_error_of_a_worker_is_that_of_the_local_engine(ray: Any, photos: Path, tmp_path: Path) -> None:
    encoder: Any = SimpleNamespace(name="absent", fingerprint="", dim=3, image_size=32)
    with pytest.raises(ValueError, match="There is no encoder 'absent'") as caught:
        extract(Catalog.from_source(photos), encoder, tmp_path / "store", engine="ray", progress=False)
    assert "\n" not in str(caught.value)


def test_missing_package_is_one_sentence(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"^The engine ray needs Ray: pip install 'cgmcr2\[ray\]'\.$"):
        extract_with_ray(Catalog.from_source(photos), tmp_path / "store")

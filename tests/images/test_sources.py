"""Sources are shared by threads."""

from __future__ import annotations

import io
import sys
import tarfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cgmcr2.images import Catalog


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_threads_do_not_read_each_others_bytes(tmp_path: Path, kind: str) -> None:
    contents = [bytes([number]) * 20_000 for number in range(200)]
    path = tmp_path / f"a.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for number, data in enumerate(contents):
                archive.writestr(str(number), data)
    else:
        with tarfile.open(path, "w") as tar:
            for number, data in enumerate(contents):
                info = tarfile.TarInfo(str(number))
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    catalog = Catalog.from_source(path)

    def is_intact(number: int) -> bool:
        return catalog[number].load().read() == contents[number]  # type: ignore[union-attr]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # switch threads as often as possible
    try:
        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(is_intact, list(range(200)) * 10))
    finally:
        sys.setswitchinterval(interval)

"""Official files over HTTP: what is there is kept, what broke off goes on, and nothing wrong gets the final name."""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tqdm import tqdm

from cgmcr2.datasets.facts import DatasetInfo

_BLOCK = 2**20
_TIMEOUT = 60.0  # seconds without a byte


def download_dataset(info: DatasetInfo, root: str | os.PathLike[str]) -> Path:
    """Fetch the official files of a data set into its folder below ``root``, and return that folder."""
    if not info.downloads:
        raise ValueError(f"{info.title} cannot be downloaded for you: {info.obtain}.")
    folder = Path(root) / info.folders[0]
    for download in info.downloads:
        fetch(download.url, folder / download.file, md5=download.md5)
    return folder


def fetch(url: str, path: str | os.PathLike[str], *, md5: str) -> Path:
    """Download ``url`` to ``path`` unless it is there already; ``md5`` is checked either way.

    The bytes go to ``path`` + ".part" first. Interrupted, the next call asks the server only for the rest.
    """
    path = Path(path)
    if path.exists():
        if _md5(path) != md5:
            raise ValueError(f"'{path}' is not the official file (its MD5 is not {md5}): remove it and start again.")
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    _receive(url, part)
    found = _md5(part)
    if found != md5:
        part.unlink()
        raise OSError(f"{url} gave a file with the MD5 {found} where {md5} is published: it was removed, try again.")
    os.replace(part, path)
    return path


def _receive(url: str, part: Path) -> None:
    """Bring ``part`` to the whole length of the file at ``url``."""
    start = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "cgmcr2", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=_TIMEOUT) as response:
            resumed = response.status == 206 and _range_start(response) == start
            if response.status == 206 and not resumed:
                raise OSError("the server gave another part of the file than was asked for")
            have = start if resumed else 0  # a server without ranges sends everything again
            length = response.headers.get("Content-Length")
            total = have + int(length) if length else None
            with (
                part.open("ab" if resumed else "wb") as file,
                tqdm(total=total, initial=have, unit="B", unit_scale=True, desc=part.stem, disable=None) as bar,
            ):
                while block := response.read(_BLOCK):
                    file.write(block)
                    have += len(block)
                    bar.update(len(block))
    except urllib.error.HTTPError as error:
        if error.code == 416:  # nothing is left to send: the part is whole, or wrong, which its MD5 tells
            return
        raise OSError(f"{url} cannot be downloaded: the server answers {error.code} ({error.reason}).") from None
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise OSError(f"{url} cannot be downloaded ({reason}): start again to go on from there.") from None
    if total is not None and have != total:
        raise OSError(f"{url} broke off after {have:,} of {total:,} bytes: start again to go on from there.")


def _range_start(response: Any) -> int:
    """The first byte in a header such as ``Content-Range: bytes 100-199/200``; -1 if it is not to be understood."""
    value = str(response.headers.get("Content-Range", "")).removeprefix("bytes ").partition("-")[0]
    return int(value) if value.isdigit() else -1


def _md5(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)  # the checksum that is published; it guards against accidents
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()

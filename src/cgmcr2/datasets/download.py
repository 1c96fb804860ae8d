"""Download official files over HTTP: resumable, verified by checksum."""

from __future__ import annotations

import hashlib
import http.client
import logging
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO, Any

from cgmcr2._progress import progress_bar
from cgmcr2.datasets.info import DatasetInfo

logger = logging.getLogger(__name__)

_BLOCK_BYTES = 2**20
_TIMEOUT = 60.0  # seconds without receiving a byte


def download_dataset(info: DatasetInfo, root: str | os.PathLike[str]) -> Path:
    """Download the official files of a data set into its folder in ``root``, and return that folder."""
    if not info.downloads:
        raise ValueError(f"{info.title} cannot be downloaded automatically: {info.obtain}.")
    folder = Path(root) / info.folders[0]
    for download in info.downloads:
        fetch(download.url, folder / download.file, md5=download.md5)
    return folder


def fetch(url: str, path: str | os.PathLike[str], *, md5: str) -> Path:
    """Download a file unless it exists, and verify its MD5 checksum in both cases.

    Resumes an interrupted download: data is first written to ``path`` + ".part".

    Parameters
    ----------
    url : str
        Address of the file.
    path : str or path-like
        Where to save it.
    md5 : str
        Published checksum, in hexadecimal.

    Returns
    -------
    path : Path
        The file.
    """
    path = Path(path)
    if path.exists():
        if _file_md5(path) != md5:
            raise ValueError(f"'{path}' is not the official file (its MD5 is not {md5}): delete it and try again.")
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    logger.info("Downloading %s to %s", url, path)
    _download(url, part)
    actual = _file_md5(part)
    if actual != md5:
        part.unlink()
        raise OSError(f"The file from {url} has MD5 {actual} instead of the published {md5}: deleted, try again.")
    os.replace(part, path)
    return path


def _download(url: str, part: Path) -> None:
    """Download ``url`` to ``part``, or the rest of it if ``part`` exists."""
    start = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "cgmcr2", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    try:
        request = urllib.request.Request(url, headers=headers)  # noqa: S310 - addresses are constants of the package
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:  # noqa: S310
            resumed = response.status == 206 and _range_start(response) == start
            if response.status == 206 and not resumed:
                raise OSError("the server sent a different part of the file than requested")
            received = start if resumed else 0  # a server without range requests sends the whole file
            length = response.headers.get("Content-Length")
            total = received + int(length) if length else None
            with part.open("ab" if resumed else "wb") as file:
                received += _copy(response, file, total, received, f"Downloading {part.stem}")
    except urllib.error.HTTPError as error:
        if error.code == 416:  # the part is at least as long as the file; the MD5 decides whether it is correct
            return
        raise OSError(f"{url} cannot be downloaded: the server answers {error.code} ({error.reason}).") from None
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise OSError(f"{url} cannot be downloaded ({reason}): try again to resume.") from None
    if total is not None and received != total:
        raise OSError(f"The download of {url} stopped after {received:,} of {total:,} bytes: try again to resume.")


def _copy(response: Any, file: IO[bytes], total: int | None, initial: int, desc: str) -> int:
    """Copy the body of ``response`` to ``file``, and return the number of bytes."""
    count = 0
    with progress_bar(total, desc=desc, unit="B", initial=initial) as bar:
        while block := response.read(_BLOCK_BYTES):
            file.write(block)
            count += len(block)
            bar.update(len(block))
    return count


def _range_start(response: Any) -> int:
    """Return the first byte in a header such as ``Content-Range: bytes 100-199/200``, or -1."""
    value = str(response.headers.get("Content-Range", "")).removeprefix("bytes ").partition("-")[0]
    return int(value) if value.isdigit() else -1


def _file_md5(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)  # the published checksum; it detects damage, not attacks
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()

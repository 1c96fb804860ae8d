"""Read files on this machine and objects at URLs; transient failures of a server are retried.

URLs are opened with fsspec, which finds credentials where the programs of the provider do: in environment variables,
configuration files, or the metadata service of the machine. Credentials are neither read nor stored here.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any, NamedTuple, TypeVar

from cgmcr2.images.limits import MAX_MEMBER_BYTES, check_file_size

T = TypeVar("T")

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_HTTP = ("http", "https")
_READ_AHEAD = 2**14  # bytes; a walk over the headers of a tar skips the images between them
_VERSION_KEYS = ("ETag", "etag", "md5Hash", "sha256", "blob_id", "LastModified", "last_modified", "mtime", "created")
_RETRYABLE_STATUS = (408, 425, 429)  # the other 4xx codes are final


class StorageError(ValueError):
    """A file could not be read; the message is the reason."""


class TruncatedError(OSError):
    """A response ended too early."""


@dataclass(frozen=True)
class Retry:
    """Exponential backoff: up to ``attempts`` requests, ``delay`` seconds after the first, then twice as long each."""

    attempts: int = 5  # with the delays 0.5, 1, 2 and 4 s: throttling of S3 usually ends within seconds
    delay: float = 0.5

    def call(self, request: Callable[[], T]) -> T:
        """Return ``request()``; raise ``StorageError`` if it fails for good."""
        for attempt in range(1, self.attempts + 1):
            try:
                return request()
            except Exception as error:  # each provider has its own exceptions
                reason, transient = describe_error(error)
                if not transient:
                    raise StorageError(reason) from error
                if attempt == self.attempts:
                    raise StorageError(f"{reason}, {self.attempts} times in a row") from error
            # random, so that the threads do not repeat their requests at the same time
            time.sleep(self.delay * 2 ** (attempt - 1) * random.uniform(0.5, 1.5))  # noqa: S311
        raise AssertionError("attempts must be at least 1")


DEFAULT_RETRY = Retry()


class FileInfo(NamedTuple):
    """Path or URL of a file, its size in bytes, and a number that changes with its content."""

    path: str
    size: int
    stamp: int


def is_url(source: str | os.PathLike[str]) -> bool:
    """Return whether a source is a URL rather than a path.

    >>> is_url("s3://bucket/photos"), is_url("photos")
    (True, False)
    """
    return isinstance(source, str) and _URL.match(source) is not None


def redact(text: str) -> str:
    """Remove passwords and query strings, which may be signatures, from the URLs in a text.

    >>> redact("GET https://user:secret@host/a.jpg?X-Amz-Signature=1a2b failed")
    'GET https://host/a.jpg failed'
    """
    return re.sub(r"(\w://[^\s?'\"]*)\?[^\s'\")]*", r"\1", re.sub(r"://[^/\s@]+@", "://", text))


def absolute_source(source: str | os.PathLike[str]) -> str:
    """Return the absolute path of a source, or its URL without secrets, as it is recorded in a run folder."""
    return redact(str(source)) if is_url(source) else os.path.realpath(source)


def read_range(path: str, start: int, length: int, retry: Retry = DEFAULT_RETRY) -> bytes:
    """Return ``length`` bytes of a file from ``start`` on."""
    if not length:
        return b""
    if not is_url(path):
        with open(path, "rb") as file:
            file.seek(start)
            return file.read(length)
    fs, name = _filesystem(path)

    def request() -> bytes:
        data: bytes = fs.cat_file(name, start=start, end=start + length)
        if len(data) > length:
            raise StorageError("the server does not support range requests; download the file")
        if len(data) < length:
            raise TruncatedError(f"truncated: {len(data):,} of {length:,} bytes were received")
        return data

    return retry.call(request)


def read_object(url: str, limit: int = MAX_MEMBER_BYTES, retry: Retry = DEFAULT_RETRY) -> bytes:
    """Return the content of an object of unknown size."""
    fs, name = _filesystem(url)

    def request() -> bytes:
        if not url.lower().startswith(_HTTP):
            data: bytes = fs.cat_file(name, start=0, end=limit + 1)
            return data
        content = bytearray()
        # A stream can be closed at the limit, while a server may ignore a requested range. The size saves a request.
        with fs.open(name, block_size=0, size=1) as stream:
            while len(content) <= limit and (part := stream.read(2**20)):
                content += part
        return bytes(content)

    data = retry.call(request)
    check_file_size(len(data), limit)
    return data


class RemoteFile(io.RawIOBase):
    """Seekable object at a URL; every read is a range request with retries."""

    def __init__(self, file: FileInfo) -> None:
        self.file, self.position = file, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self.position, os.SEEK_END: self.file.size}[whence]
        self.position = base + offset
        return self.position

    def readinto(self, buffer: Any) -> int:
        length = max(0, min(len(buffer), self.file.size - self.position))
        buffer[:length] = read_range(self.file.path, self.position, length)
        self.position += length
        return length


def open_file(file: FileInfo, *, read_ahead: int = _READ_AHEAD) -> IO[bytes]:
    """Open a file for reading; ``read_ahead`` is the smallest range that is requested from a URL, in bytes."""
    return io.BufferedReader(RemoteFile(file), read_ahead) if is_url(file.path) else open(file.path, "rb")


def file_info(path: str) -> FileInfo:
    """Return size and stamp of a file; the stamp of a local file is its modification time in ns."""
    if is_url(path):
        fs, name = _filesystem(path)
        values = _checked(path, lambda: fs.info(name))
        if values.get("size") is None:
            raise StorageError(f"{redact(path)} cannot be read: the server does not state its size; download it.")
        return _info(path, values)
    status = os.stat(path)
    return FileInfo(path, status.st_size, status.st_mtime_ns)


def is_remote_folder(url: str) -> bool:
    """Return whether a URL is a folder (a prefix of objects); one of http or https never is."""
    if url.lower().startswith(_HTTP):
        return False
    fs, name = _filesystem(url)
    return bool(_checked(url, lambda: fs.info(name))["type"] == "directory")


def list_remote(url: str) -> Iterator[tuple[str, FileInfo]]:
    """Yield the path relative to ``url``, and the size and stamp, of all objects below it."""
    fs, root = _filesystem(url)
    root, url = root.rstrip("/"), url.rstrip("/")
    for name, values in _objects(fs, root, url):
        relative = name.removeprefix(root).lstrip("/")
        if relative and not relative.endswith("/"):  # an empty object may stand for a folder
            yield relative, _info(f"{url}/{relative}", values)


def _objects(fs: Any, root: str, url: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if "s3" not in ((fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol):
        folders = [root]
        while folders:
            for entry in _checked(url, functools.partial(fs.ls, folders.pop(), detail=True)):
                if entry["type"] == "directory":
                    folders.append(entry["name"])
                else:
                    yield entry["name"], entry
            fs.invalidate_cache()  # the cache of the listings would grow with the number of objects
        return
    # Pages of 1,000 objects: s3fs would keep a dictionary of more than a kilobyte for each object.
    bucket, _, prefix = root.partition("/")
    page: dict[str, Any] = {}
    while not page or page.get("IsTruncated"):
        token = {"ContinuationToken": page["NextContinuationToken"]} if page else {}
        arguments = {"Bucket": bucket, "Prefix": f"{prefix}/" if prefix else "", **token}
        page = _checked(url, functools.partial(fs.call_s3, "list_objects_v2", **arguments))
        for entry in page.get("Contents", ()):
            yield f"{bucket}/{entry['Key']}", {**entry, "size": entry["Size"]}


def _info(url: str, values: dict[str, Any]) -> FileInfo:
    version = next((str(values[key]) for key in _VERSION_KEYS if values.get(key)), "")
    stamp = int.from_bytes(hashlib.blake2b(version.encode(), digest_size=8).digest(), "little") >> 1
    return FileInfo(url, int(values["size"] or 0), stamp)


def _checked(url: str, request: Callable[[], T]) -> T:
    """Return ``request()``; if it fails, raise an error that names the URL."""
    try:
        return DEFAULT_RETRY.call(request)
    except StorageError as error:
        message = f"{redact(url)} cannot be read: {error}."
        kind = FileNotFoundError if isinstance(error.__cause__, FileNotFoundError) else StorageError
        raise kind(message) from error.__cause__


def _filesystem(url: str) -> tuple[Any, str]:
    """Return the fsspec file system of a URL and the path in it."""
    import fsspec
    from fsspec.config import conf

    protocol = url.partition("://")[0].lower()
    options: dict[str, Any] = {}
    if protocol in ("s3", "s3a"):  # `Retry` is the only policy: those of botocore and s3fs would multiply the requests
        config = conf.get("s3", {}).get("config_kwargs", {})
        options["config_kwargs"] = {"retries": {"total_max_attempts": 1}, **config}
    try:
        fs, path = fsspec.url_to_fs(url, **options)
    except ImportError as error:
        known = protocol in ("s3", "s3a", *_HTTP)
        advice = "pip install 'cgmcr2[cloud]'" if known else redact(str(error))
        raise ImportError(f"Reading {protocol}:// URLs needs another package: {advice}") from None
    except ValueError as error:
        raise ValueError(f"{redact(url)} cannot be opened ({redact(str(error))}).") from None
    if protocol in ("s3", "s3a"):
        fs.retries = 1
    return fs, path


def describe_error(error: Exception) -> tuple[str, bool]:
    """Return why a request failed, and whether it may succeed if it is repeated.

    >>> describe_error(FileNotFoundError())
    ('does not exist', False)
    >>> describe_error(TimeoutError())
    ('the server did not answer in time', True)
    """
    if isinstance(error, TruncatedError):
        return str(error), True
    if "Checksum" in type(error).__name__:
        return "altered in transfer: the checksum does not match", True
    if "Payload" in type(error).__name__ or "IncompleteRead" in type(error).__name__:
        return "truncated: the connection was closed too early", True
    status = _http_status(error)
    cause = error.__cause__
    if isinstance(error, FileNotFoundError) or status == 404:
        if isinstance(cause, Exception) and not isinstance(cause, LookupError) and status != 404:
            return describe_error(cause)  # fsspec takes every failed request over HTTP for a missing file
        return "does not exist", False
    if isinstance(error, PermissionError) or status in (401, 403):
        return "permission denied; check your credentials", False
    if type(error).__name__ in ("NoCredentialsError", "PartialCredentialsError", "DefaultCredentialsError"):
        return "no credentials were found; set them as the provider's own programs expect them", False
    if status is not None:
        return f"the server answered with HTTP status {status}", status >= 500 or status in _RETRYABLE_STATUS
    if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__:
        return "the server did not answer in time", True
    if isinstance(error, ImportError | ValueError | TypeError):  # not of the network
        return redact(str(error)), False
    return f"the connection failed ({redact(str(error)) or type(error).__name__})", True


def _http_status(error: BaseException | None) -> int | None:
    """Return the HTTP status in an exception of aiohttp, botocore, gcsfs or huggingface_hub, or in its cause."""
    if error is None:
        return None
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    else:
        status = (
            getattr(response, "status_code", None) or getattr(error, "status", None) or getattr(error, "code", None)
        )
    return status if isinstance(status, int) else _http_status(error.__cause__)

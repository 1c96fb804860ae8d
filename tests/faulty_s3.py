"""S3 server of moto on this machine that fails as planned; tests and benchmarks/s3_faults.py use it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

boto3 = pytest.importorskip("boto3", reason="needs moto[server]")
moto = pytest.importorskip("moto.server", reason="needs moto[server]")
werkzeug = pytest.importorskip("werkzeug.serving", reason="needs moto[server]")

BUCKET = "bucket"


class FaultyS3:
    """WSGI application in front of moto.

    ``faults`` maps the key of an object, or "" for listings, to the faults of its next GET requests: "503", "slow",
    "cut" (the connection ends early), "short" (a shorter body with a matching Content-Length) or "" (none).
    ``range_faults`` maps a key to the faults of each new range of bytes that is requested from it.
    """

    def __init__(self, slow_seconds: float) -> None:
        self.slow_seconds = slow_seconds
        self.app = moto.DomainDispatcherApplication(moto.create_backend_app)
        self.faults: dict[str, Iterator[str]] = {}
        self.range_faults: dict[str, Iterator[list[str]]] = {}
        self.injected = Counter[str]()
        self.requests = Counter[str]()
        self._lock = threading.Lock()

    def plan(self, key: str, faults: Iterable[str]) -> None:
        self.faults[key] = iter(faults)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        fault = ""
        if environ["REQUEST_METHOD"] == "GET":
            key = environ["PATH_INFO"].removeprefix(f"/{BUCKET}").lstrip("/")
            with self._lock:
                self.requests[key] += 1
                if key in self.range_faults:
                    name = f"{key} {environ.get('HTTP_RANGE', '')}"
                    if name not in self.faults:
                        self.plan(name, next(self.range_faults[key]))
                    key = name
                fault = next(self.faults.get(key, iter(())), "")
                self.injected[fault] += bool(fault)
        if fault == "503":
            start_response("503 Slow Down", [("Content-Type", "application/xml")])
            return [b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"]
        if fault == "slow":
            time.sleep(self.slow_seconds)
        if fault not in ("cut", "short"):
            return self.app(environ, start_response)
        response: list[Any] = []
        body = b"".join(self.app(environ, lambda *arguments: response.extend(arguments)))
        status, headers = response[:2]
        part = body[: len(body) // 2]
        length = len(body) if fault == "cut" else len(part)
        dropped = ("content-length", "x-amz-checksum")  # S3 sends no checksum with a range of bytes
        kept = [(name, value) for name, value in headers if not name.lower().startswith(dropped)]
        start_response(status, [*kept, ("Content-Length", str(length))])
        return [part]


@contextlib.contextmanager
def faulty_s3(slow_seconds: float = 2) -> Iterator[tuple[FaultyS3, Any]]:
    """Start the server, point the environment to it, and yield it with a boto3 client and an empty bucket."""
    faults = FaultyS3(slow_seconds)
    server = werkzeug.make_server("127.0.0.1", 0, faults, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "test-key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test-secret")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("NO_PROXY", "127.0.0.1")
        client = boto3.client("s3")
        client.create_bucket(Bucket=BUCKET)
        try:
            yield faults, client
        finally:
            server.shutdown()
            thread.join()

"""Serve a session of the explorer from a thread."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from cgmcr2.explorer.app import Explorer
from cgmcr2.explorer.security import Guard
from cgmcr2.explorer.session import Session


@contextmanager
def serve(session: Session, port: int = 0) -> Iterator[str]:
    """Serve a session and yield its address; port 0 is any free one."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        port = listener.getsockname()[1]
        application = Guard(Explorer(session).application(), "token", "127.0.0.1", port)
        server = uvicorn.Server(uvicorn.Config(application, log_level="error", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield f"http://127.0.0.1:{port}/token/"
        server.should_exit = True
        thread.join()

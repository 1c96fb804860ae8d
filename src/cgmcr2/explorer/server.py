"""Serve the explorer on this machine until Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import webbrowser
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType

import uvicorn

from cgmcr2.clustering.edits import base_state
from cgmcr2.runs.folder import StrPath

from .address import Address, read_address, write_address
from .app import Explorer
from .security import Guard, new_token
from .session import CACHE, Session

GRACE_SECONDS = 2  # for open requests after Ctrl-C


def explore(
    run: StrPath,
    *,
    images: StrPath | None = None,
    text: StrPath | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    browser: bool = True,
    on_start: Callable[[str], None] = print,
) -> None:
    """Serve the explorer of a run folder until Ctrl-C.

    Parameters
    ----------
    run : a run folder
    images : location of the images, if they were moved
    text : file of words with embeddings in the space of the features, to search by text
    host, port : where to listen; port 0 is that of the last start if it is free, otherwise any free one
    browser : whether to open the page in the browser
    on_start : called with the address of the page
    """
    with ExitStack() as stack:
        session = stack.enter_context(Session(run, images, text))
        file = session.run.path / CACHE / "address.json"
        last = read_address(file, base_state(session.edits.fitted))
        listener = stack.enter_context(_listen_again(host, port, last.port))
        port = listener.getsockname()[1]
        token = last.token if port == last.port else new_token()
        write_address(file, Address(port, token, last.fit))
        explorer = Explorer(session)
        application = Guard(explorer.application(), token, host, port)
        config = uvicorn.Config(
            application,
            access_log=False,  # the path holds the token
            log_level="error",
            timeout_graceful_shutdown=GRACE_SECONDS,
            server_header=False,
            proxy_headers=False,
            ws="none",
        )
        name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
        url = f"http://{name}:{port}/{token}/"
        on_start(url)
        if browser:
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()  # some browsers block
        with contextlib.suppress(KeyboardInterrupt):
            _Server(config, explorer).run(sockets=[listener])


class _Server(uvicorn.Server):
    """A server that does not wait for slow work when it is stopped."""

    def __init__(self, config: uvicorn.Config, explorer: Explorer) -> None:
        super().__init__(config)
        self.explorer = explorer

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop the server; called by the signal handler."""
        super().handle_exit(sig, frame)
        self.explorer.stop()


def _listen_again(host: str, port: int, last_port: int) -> socket.socket:
    """Listen on ``port``; if it is 0, on the port of the last start if it is free."""
    if not port and last_port:
        with contextlib.suppress(OSError):
            return _listen(host, last_port)
    return _listen(host, port)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
        # Connections inherit it; otherwise each answer would wait 40 ms for the acknowledgement of its header.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise OSError(f"Cannot listen on {host} port {port}: {reason}; choose another --host or --port.") from None

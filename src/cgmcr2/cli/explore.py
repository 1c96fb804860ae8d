"""``cgmcr2 explore``: look at the clusters of a run in the browser, and edit them."""

from __future__ import annotations

import logging
import os
import sys
import threading
from typing import Annotated

import typer

from . import options
from .output import print_json

logger = logging.getLogger(__name__)

LOOPBACK = ("127.0.0.1", "localhost", "::1")

EPILOG = """\b
Examples:
  cgmcr2 explore run
  cgmcr2 explore run --images moved-photos
  cgmcr2 explore run --no-browser --port 8000
"""


def explore(
    run: options.Run,
    images: options.MovedImages = None,
    text: options.TextFile = None,
    host: Annotated[
        str,
        typer.Option(
            "--host", metavar="ADDRESS", help="Address to listen on; others than 127.0.0.1 admit other machines."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            "--port",
            metavar="N",
            min=0,
            max=65535,
            help="Port to listen on; 0 is the last one of this run, or any free one.",
        ),
    ] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")] = True,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Explore the clusters of a run in the browser, and edit them.

    Edits are kept in edits.jsonl in the run folder, as those of cgmcr2 edit, and every edit can be undone. The page is
    served by this machine until Ctrl-C, and only to whoever knows its address. Needs cgmcr2[web].
    """
    try:
        from cgmcr2.explorer.server import explore as serve
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        raise ImportError(
            "explore needs starlette and uvicorn; install them with: pip install 'cgmcr2[web]'"
        ) from error

    if host not in LOOPBACK:
        logger.warning("Whoever learns the address can see and edit the run, and the connection is not encrypted.")

    def show(url: str) -> None:
        if as_json:
            print_json({"run": str(run), "url": url})
        else:
            typer.echo(f"Explore {run}: {url}")
        logger.info("Press Ctrl-C to stop. Edits are saved at once.")

    serve(run, images=images, text=text, host=host, port=port, browser=browser, on_start=show)
    if any(thread.daemon for thread in threading.enumerate()):  # they compute, and would abort a regular exit
        sys.stdout.flush()
        os._exit(0)

"""The web application of the explorer: its routes, without the guard."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, InvalidStateError
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cgmcr2.clustering.export import export
from cgmcr2.page import ASSETS

from .learning import StaleStateError
from .pictures import MissingError
from .session import Session
from .snapshot import Snapshot
from .verbs import Rows

T = TypeVar("T")
Endpoint = Callable[[Request], Awaitable[Response]]

MEDIA_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
DOWNLOADS = {"labels.csv": ("csv", "text/csv; charset=utf-8"), "labels.json": ("json", "application/json")}
SLOW_JOBS = 2  # splits, searches, refinements and exports at the same time; thumbnails have threads of their own
CACHED = {"Cache-Control": "private, max-age=3600"}  # a changed image is shown after an hour


class _Ids(msgspec.Struct, forbid_unknown_fields=True):
    rows: Rows


class _Edit(msgspec.Struct, forbid_unknown_fields=True):
    verb: str
    state: str
    arguments: dict[str, Any] = {}


class _Accept(msgspec.Struct, forbid_unknown_fields=True):
    state: str
    rows: Rows | None = None  # of the images that move; all by default


class _Split(msgspec.Struct, forbid_unknown_fields=True):
    cluster: int
    parts: int = 2


class _Levels(msgspec.Struct, forbid_unknown_fields=True):
    clusters: int


class _Similar(msgspec.Struct, forbid_unknown_fields=True):
    row: int
    count: int = 100


class _Search(msgspec.Struct, forbid_unknown_fields=True):
    text: str
    count: int = 100


class _Export(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    folder: str
    link: str = "copy"


class Explorer:
    """The routes of a session."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.assets = {path.name: path.read_bytes() for path in ASSETS.iterdir() if path.suffix in MEDIA_TYPES}
        self._slow = asyncio.Semaphore(SLOW_JOBS)
        self._waiting: set[Future[Any]] = set()

    def stop(self) -> None:
        """Answer requests that wait for slow work with an error, so that the server can stop."""
        for future in list(self._waiting):
            with contextlib.suppress(InvalidStateError):  # it has just finished
                future.set_exception(HTTPException(503, "The server was stopped."))

    def application(self) -> Starlette:
        """The application; everything but its routes is answered with 404."""
        get: dict[str, Endpoint] = {
            "/": self.page,
            "/assets/{name}": self.asset,
            "/state": self.state,
            "/rows": self.rows,
            "/dates": self.dates,
            "/map": self.map,
            "/thumbnails/{row:int}": self.thumbnail,
            "/images/{row:int}": self.image,
            "/review": self.review,
            "/duplicates": self.duplicates,
            "/export/{name}": self.download,
        }
        post: dict[str, Endpoint] = {
            "/ids": self.ids,
            "/edit": self.edit,
            "/split-preview": self.split_preview,
            "/levels": self.levels,
            "/refine": self.refine,
            "/refine/accept": self.accept,
            "/refine/discard": self.discard,
            "/similar": self.similar,
            "/search": self.search,
            "/export": self.export,
        }
        routes = [Route(path, endpoint, methods=["GET"]) for path, endpoint in get.items()]
        routes += [Route(path, endpoint, methods=["POST"]) for path, endpoint in post.items()]
        handlers: dict[Any, Any] = {
            StaleStateError: _failure(409),
            MissingError: _failure(404),
            ValueError: _failure(400),
            ImportError: _failure(400),  # of an optional package
            FileExistsError: _failure(400),
            OSError: _failure(500),
            HTTPException: lambda request, error: _json({"error": error.detail}, error.status_code),
        }
        return Starlette(routes=routes, exception_handlers=handlers)

    async def page(self, request: Request) -> Response:
        return Response(await run_in_threadpool(self.session.page), media_type="text/html")

    async def asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self.assets:
            raise MissingError(f"There is no file {name!r}.")
        return Response(self.assets[name], media_type=MEDIA_TYPES[Path(name).suffix])

    async def state(self, request: Request) -> Response:
        return _json(await run_in_threadpool(self.session.state))

    async def rows(self, request: Request) -> Response:
        snapshot = self.session.snapshot
        return Response(snapshot.rows, media_type="application/octet-stream", headers={"X-State": snapshot.state})

    async def dates(self, request: Request) -> Response:
        return Response(await run_in_threadpool(self.session.pictures.dates), media_type="application/octet-stream")

    async def map(self, request: Request) -> Response:
        try:
            positions = await run_in_threadpool(self.session.map.positions)
        except MissingError:
            return Response(status_code=204)
        if positions is None:
            return _json({"progress": None}, 202)
        return Response(positions, media_type="application/octet-stream")

    async def ids(self, request: Request) -> Response:
        return _json(self.session.ids((await _body(request, _Ids)).rows))

    async def thumbnail(self, request: Request) -> Response:
        row = request.path_params["row"]
        data = self.session.pictures.cached_thumbnail(row)  # quicker than a thread
        if data is None:
            data = await run_in_threadpool(_read, self.session.pictures.thumbnail, row)
        return _image(data, "image/webp")

    async def image(self, request: Request) -> Response:
        data = await run_in_threadpool(_read, self.session.pictures.image, request.path_params["row"])
        return _image(data, "image/jpeg")

    async def edit(self, request: Request) -> Response:
        edit = await _body(request, _Edit)

        def apply() -> dict[str, Any]:
            snapshot: Snapshot = self.session.edit(edit.verb, edit.arguments, edit.state)
            return self.session.state(snapshot)

        return _json(await run_in_threadpool(apply))

    async def split_preview(self, request: Request) -> Response:
        split = await _body(request, _Split)
        return _json({"parts": await self._slowly(self.session.preview_split, split.cluster, split.parts)})

    async def levels(self, request: Request) -> Response:
        level = await _body(request, _Levels)
        edits = await self._slowly(self.session.levels, level.clusters)
        groups = [
            {"clusters": arguments["clusters"]}
            if verb == "merge"
            else {"clusters": [arguments["cluster"]], "parts": arguments["parts"]}
            for verb, arguments in edits
        ]
        return _json({"edits": edits, "groups": groups})

    async def review(self, request: Request) -> Response:
        return _json(await self._slowly(self.session.learning.review, _number(request, "count", 20)))

    async def refine(self, request: Request) -> Response:
        return _json(await self._slowly(self.session.learning.refine))

    async def accept(self, request: Request) -> Response:
        accepted = await _body(request, _Accept)
        return _json(await self._slowly(lambda: self.session.state(self.session.accept(accepted.state, accepted.rows))))

    async def discard(self, request: Request) -> Response:
        self.session.learning.discard()
        return _json({})

    async def duplicates(self, request: Request) -> Response:
        start, count = _number(request, "start", 0), _number(request, "count", 20)
        return _json(await self._slowly(self.session.duplicates, start, count))

    async def similar(self, request: Request) -> Response:
        if request.headers["content-type"].startswith("multipart"):
            async with request.form(max_files=1, max_fields=1) as form:
                file = form.get("image")
                if file is None or isinstance(file, str):
                    raise ValueError("The form needs a file in the field image.")
                data, count = await file.read(), form.get("count", "100")
            if not isinstance(count, str) or not count.isdecimal():
                raise ValueError("count must be an integer.")
            return _json(await self._slowly(self.session.similar_to_file, data, int(count)))
        query = await _body(request, _Similar)
        return _json(await self._slowly(self.session.similar, query.row, query.count))

    async def search(self, request: Request) -> Response:
        query = await _body(request, _Search)
        return _json(await self._slowly(self.session.similar_to_text, query.text, query.count))

    async def export(self, request: Request) -> Response:
        options = await _body(request, _Export)
        return _json(await self._slowly(self.session.export, options.format, options.folder, options.link))

    async def download(self, request: Request) -> Response:
        name: str = request.path_params["name"]
        if name not in DOWNLOADS:
            raise MissingError(f"There is no download {name!r}; choose from {', '.join(DOWNLOADS)}.")
        kind, media_type = DOWNLOADS[name]

        def write() -> bytes:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / name
                export(self.session.snapshot.clustering, path, kind)  # type: ignore[arg-type]
                return path.read_bytes()

        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(await self._slowly(write), media_type=media_type, headers=headers)

    async def _slowly(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function in a daemon thread, which does not delay the end of the server."""
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()  # from now on it cannot be cancelled

        def work() -> None:
            with contextlib.suppress(InvalidStateError):  # the server was stopped
                try:
                    future.set_result(function(*arguments))
                except Exception as error:
                    future.set_exception(error)

        self._waiting.add(future)
        try:
            async with self._slow:
                threading.Thread(target=work, daemon=True).start()
                return await asyncio.wrap_future(future)
        finally:
            self._waiting.discard(future)


async def _body(request: Request, type: type[T]) -> T:
    """The body of a request, which must be JSON of this type."""
    try:
        return msgspec.json.decode(await request.body(), type=type)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError(f"The request is not valid: {str(error)[:200]}.") from None


def _read(read: Callable[[int], bytes], row: int) -> bytes | None:
    """``read(row)``, or None if the image cannot be read."""
    try:
        return read(row)
    except Exception:  # damaged images raise nearly any type; the page shows the file name
        return None


def _image(data: bytes | None, media_type: str) -> Response:
    if data is None:
        raise MissingError("There is no such image, or it cannot be read.")
    return Response(data, media_type=media_type, headers=CACHED)


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, str(default))
    if not text.isdecimal() or len(text) > 9:
        raise ValueError(f"{name} must be an integer of at least 0, but is {text[:40]!r}.")
    return int(text)


def _json(value: Any, status: int = 200) -> Response:
    # ASCII, because names of files that are not UTF-8 contain lone surrogates, which JSON can only store as escapes.
    return Response(json.dumps(value, separators=(",", ":")), status, media_type="application/json")


def _failure(status: int) -> Callable[[Request, Exception], Response]:
    def respond(request: Request, error: Exception) -> Response:
        text = str(error)
        if isinstance(error, OSError) and error.strerror and error.filename:
            text = f"{error.strerror}: {error.filename}."
        return _json({"error": " ".join(text.split()) or type(error).__name__}, status)

    return respond

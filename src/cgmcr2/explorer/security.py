"""Which requests the explorer answers: those with its token, for its host name and from its own page."""

from __future__ import annotations

import ipaddress
import secrets

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 32 * 2**20  # bytes of a request: a large photo, or the rows of three million images
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
CONTENT_TYPES = ("application/json", "multipart/form-data")
TOKEN_LENGTH = 43  # characters of 32 random bytes


def new_token() -> str:
    """A random secret for the first segment of all paths."""
    return secrets.token_urlsafe(32)


class Guard:
    """ASGI middleware that refuses requests from elsewhere and removes the token from the path of the others.

    A page of another origin does not know the token, and the browser does not let it read answers. A host name that an
    attacker points to this machine (DNS rebinding) is refused by the Host header.

    Parameters
    ----------
    app : the application behind the guard
    token : first segment of every path
    host, port : where the server listens; "0.0.0.0" and "::" also admit every IP address in the Host header
    max_body : bytes of a request body that are read
    """

    def __init__(self, app: ASGIApp, token: str, host: str, port: int, *, max_body: int = MAX_BODY) -> None:
        self.app, self.token, self.max_body = app, token, max_body
        self.any_address = host in ("0.0.0.0", "::")  # noqa: S104 - compared, not bound
        names = ("127.0.0.1", "localhost", "[::1]", f"[{host}]" if ":" in host else host)
        self.hosts = {f"{name}:{port}" for name in names} | ({*names} if port == 80 else set())
        self.port = port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # there are no web sockets
        headers = Headers(scope=scope)
        refusal = self._refusal(scope["method"], headers)
        first, slash, rest = scope["path"].removeprefix("/").partition("/")
        if not secrets.compare_digest(first.encode("utf-8", "surrogatepass"), self.token.encode()):
            refusal = PlainTextResponse("Not found; use the whole address that cgmcr2 explore printed.", 404)
        elif refusal is None and not slash:
            refusal = RedirectResponse(f"/{self.token}/")
        inner = {**scope, "path": f"/{rest}", "raw_path": None, "root_path": ""}
        await (refusal or self.app)(inner, self._limited(receive), _with_headers(send))

    def _refusal(self, method: str, headers: Headers) -> Response | None:
        host = headers.get("host", "").lower()
        if host not in self.hosts and not (self.any_address and _is_address(host, self.port)):
            return PlainTextResponse("This host name is not served.", 421)
        if method in ("GET", "HEAD"):
            return None
        if headers.get("origin") != f"http://{host}":
            return PlainTextResponse("Requests from other pages are refused.", 403)
        if headers.get("content-type", "").partition(";")[0].strip().lower() not in CONTENT_TYPES:
            return PlainTextResponse(f"The content type must be {' or '.join(CONTENT_TYPES)}.", 415)
        length = headers.get("content-length", "0")
        if not length.isdecimal() or len(length) > 12 or int(length) > self.max_body:
            return PlainTextResponse("The request is too large.", 413)
        return None

    def _limited(self, receive: Receive) -> Receive:
        """``receive`` that fails after ``max_body`` bytes, for bodies without a length."""
        total = 0

        async def limited() -> Message:
            nonlocal total
            message = await receive()
            total += len(message.get("body", b""))
            if total > self.max_body:
                raise HTTPException(413, "The request is too large.")
            return message

        return limited


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(HEADERS)
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return send_with_headers


def _is_address(host: str, port: int) -> bool:
    """Whether a Host header is an IP address with this port; an address, unlike a name, cannot be rebound."""
    address, colon, number = host.rpartition(":")
    try:
        ipaddress.ip_address(address.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return colon == ":" and number == str(port)

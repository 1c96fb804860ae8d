"""The HTML document around the modules."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

import jinja2
from markupsafe import Markup

from .bundle import ASSETS, bundle


def render_page(
    title: str,
    item: str,
    about: Mapping[str, Any],
    *,
    source: str = "",
    note: str = "",
    data: Mapping[str, Any] | None = None,
    thumbnails: Mapping[int, str] | None = None,
) -> str:
    """The HTML page.

    Parameters
    ----------
    title : heading and title
    item : "image" or "row"
    about : values of the section "About", from :func:`cgmcr2.report.about.about_values`
    source : what was clustered
    note : a notice for the top of the page
    data : contents of a self-contained page. Default: the page loads its style and modules from ``assets/`` and its
        data from a server
    thumbnails : base64 of the WebP thumbnails of a self-contained page
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(ASSETS),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    inline: dict[str, Any] = {}
    if data is not None:
        css = (ASSETS / "page.css").read_text(encoding="utf-8")
        for kind, text in (("css", css), ("js", bundle("app.js"))):
            inline[kind] = Markup(text)  # noqa: S704 - our own files
            # The Content Security Policy admits only this style and this script, by their hashes.
            inline[f"{kind}_hash"] = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        inline |= {"data": _json_for_script(data), "thumbnails": _json_for_script(thumbnails or {})}
    html = environment.get_template("page.html").render(
        **about, title=title, item=item, items=f"{item}s", source=source, note=note, inline=inline
    )
    return re.sub("[\ud800-\udfff]", "\ufffd", html)  # undecodable bytes of file names


def _json_for_script(value: Any) -> Markup:
    """JSON with <, > and & escaped, so that it can neither end a script element nor begin a comment."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    safe = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Markup(safe)  # noqa: S704 - escaped above

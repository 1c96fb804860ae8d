"""A small clustering, its images, and a parser of the page written from them."""

from __future__ import annotations

import base64
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from cgmcr2.clustering import Clustering
from cgmcr2.images import Catalog


def clustering(n: int = 60, k: int = 3, ids: list[str] | None = None) -> Clustering:
    rng = np.random.default_rng(0)
    labels = np.arange(n) % k
    Z = np.eye(8)[labels] + 0.1 * rng.standard_normal((n, 8))
    logits = 4 * np.eye(k)[labels] + rng.standard_normal((n, k))
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = probabilities.argmax(1)
    return Clustering(ids or [f"{i:03}.png" for i in range(n)], labels, embedding=Z, probabilities=probabilities)


class Page(HTMLParser):
    """Elements, attributes, text and scripts of an HTML page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text = ""
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self._inside == "script" and self.scripts:
            self.scripts[-1] += data
        elif self._inside != "style":
            self.text += data

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""


def read_page(path: Path) -> tuple[Page, dict[str, Any], dict[str, str]]:
    page = Page(path.read_text(encoding="utf-8"))
    data, thumbnails, _ = page.scripts
    return page, json.loads(data), json.loads(thumbnails)


ARRAYS = ("labels", "runner_up", "confidence", "margin", "outlier", "typicality")


def unpack_rows(data: dict[str, Any]) -> dict[str, np.ndarray]:
    """The per-row values of a page."""
    content, n = base64.b64decode(data["rows"]), data["n"]
    values = {name: np.frombuffer(content, "<u2", n, 2 * n * i) for i, name in enumerate(ARRAYS)}
    return values | {"locked": np.frombuffer(content, np.uint8, n, 12 * n)}


def write_photos(folder: Path, names: list[str]) -> Catalog:
    for number, name in enumerate(names):
        Image.new("RGB", (40, 30), (number * 3 % 256, 100, 50)).save(folder / name.replace("/", "_"))
    return Catalog.from_source(folder)

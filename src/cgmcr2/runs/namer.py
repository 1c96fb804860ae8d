"""Names from a vision language model behind an OpenAI-compatible server, such as llama.cpp or ollama."""

from __future__ import annotations

import base64
import io
import json
import math
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from PIL import Image

from cgmcr2.clustering import Clustering
from cgmcr2.images import Catalog, iter_decoded
from cgmcr2.words import Suggestion
from cgmcr2.words.naming import numbered_name

from .edits import Edits
from .folder import RunFolder, StrPath
from .names import READER_IMAGES, Names, clusters_to_name, image_catalog

SIDE = 128  # pixels of an image on the contact sheet
TIMEOUT = 300.0  # seconds for one answer
MAX_NAME = 60  # characters
PROMPT = (
    "These images form one cluster of a photo collection. Answer with the name of what they have in common, in one to "
    "three words, without punctuation."
)


class Namer:
    """A client for the ``chat/completions`` of an OpenAI-compatible server.

    Parameters
    ----------
    url : address of the server, such as ``http://localhost:8080`` or ``http://localhost:11434/v1``
    model : name of the model; default: the first that the server lists
    """

    def __init__(self, url: str, model: str | None = None) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not the address of a server; give one such as http://localhost:8080.")
        base = url.rstrip("/").removesuffix("/chat/completions")
        self.base = base if parts.path.strip("/") else f"{base}/v1"
        self.model = model

    def name(self, sheet: Image.Image) -> str:
        """The model's name for the images on a contact sheet; empty if it gives none."""
        file = io.BytesIO()
        sheet.save(file, "JPEG", quality=85)
        data = base64.b64encode(file.getvalue()).decode("ascii")
        content = [
            {"type": "text", "text": PROMPT},
            {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{data}"}},
        ]
        self.model = self.model or self._first_model()
        request = {"model": self.model, "messages": [{"role": "user", "content": content}], "temperature": 0}
        answer = self._call("chat/completions", request)
        try:
            text = str(answer["choices"][0]["message"]["content"])
        except (LookupError, TypeError) as error:
            raise ValueError(f"The server {self.base} gave no chat completion; is it OpenAI-compatible?") from error
        return clean_name(text)

    def _first_model(self) -> str:
        try:
            return str(self._call("models")["data"][0]["id"])
        except (LookupError, TypeError) as error:
            raise ValueError(f"The server {self.base} lists no models; give one with --namer-model.") from error

    def _call(self, path: str, content: dict[str, Any] | None = None) -> Any:
        url = f"{self.base}/{path}"
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310 checked above
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as response:  # noqa: S310
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise OSError(f"The server {url} answered with error {error.code} ({error.reason}).") from error
        except (urllib.error.URLError, TimeoutError) as error:
            raise OSError(f"The server {url} cannot be reached ({getattr(error, 'reason', error)}).") from error
        except json.JSONDecodeError as error:
            raise ValueError(f"The server {url} did not answer with JSON; is it OpenAI-compatible?") from error


def clean_name(text: str) -> str:
    """The first line of an answer without quotes, full stop and control characters, shortened to 60 characters.

    >>> clean_name('"Red cars."')
    'Red cars'
    """
    line = next((line for line in text.splitlines() if line.strip()), "")
    name = "".join(character for character in line if character.isprintable())
    return name.strip(" \"'*.`").strip()[:MAX_NAME].strip()


def ask_names(
    run: StrPath | RunFolder, namer: Namer, *, images: StrPath | None = None, rename_all: bool = False
) -> Names:
    """Send one contact sheet for each cluster to a server, and write its answers to ``names.json``.

    Up to 25 representative images of each cluster leave this process, at 128 x 128 pixels.
    """
    with Edits(run, read_only=True) as edits:
        folder, clustering, state = edits.run, edits.clustering, edits.state
    catalog = image_catalog(folder, images)
    clusters = clusters_to_name(clustering, rename_all=rename_all)
    used = Counter(name for cluster, name in enumerate(clustering.names) if cluster not in clusters)
    suggestions = []
    for cluster, sheet in contact_sheets(clustering, catalog, clusters):
        answer = namer.name(sheet) if sheet is not None else ""
        name = numbered_name(answer, used) if answer else None
        reason = "" if answer else "the model gave no name" if sheet is not None else "its images cannot be read"
        words = [(answer, 1.0)] if answer else []
        suggestions.append(Suggestion(cluster, name, words, None, reason))
    names = Names(state, f"{namer.base} ({namer.model})", 0, suggestions, [])
    names.write(folder.path)
    return names


def contact_sheets(
    clustering: Clustering, catalog: Catalog, clusters: Sequence[int]
) -> Iterator[tuple[int, Image.Image | None]]:
    """Yield each cluster with a grid of its most typical images; None if none of them can be read."""
    position = {id: index for index, id in enumerate(catalog.ids)}
    for cluster in clusters:
        ids = [clustering.ids[row] for row in clustering.representatives(cluster, READER_IMAGES)]
        indices = [position[id] for id in ids if id in position]
        tiles = [
            tile for _, tile in iter_decoded(catalog, _tile, indices=indices, size=SIDE) if not isinstance(tile, str)
        ]
        yield cluster, _grid(tiles) if tiles else None


def _tile(image: Image.Image) -> Image.Image:
    image.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    tile = Image.new("RGB", (SIDE, SIDE), "white")
    tile.paste(image, ((SIDE - image.width) // 2, (SIDE - image.height) // 2))
    return tile


def _grid(tiles: Sequence[Image.Image]) -> Image.Image:
    columns = math.ceil(math.sqrt(len(tiles)))
    sheet = Image.new("RGB", (columns * SIDE, math.ceil(len(tiles) / columns) * SIDE), "white")
    for number, tile in enumerate(tiles):
        sheet.paste(tile, (number % columns * SIDE, number // columns * SIDE))
    return sheet

"""``Session``: a run that is open in the explorer."""

from __future__ import annotations

import errno
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from types import TracebackType
from typing import Any, get_args

import numpy as np

from cgmcr2.clustering.edits import moves_images
from cgmcr2.clustering.export import Kind, export
from cgmcr2.clustering.splitting import propose_split
from cgmcr2.encoders import TextEncoder, list_encoders
from cgmcr2.features.search import embed_file, most_similar
from cgmcr2.features.sources import FeatureSource, read_rows
from cgmcr2.images import Catalog
from cgmcr2.page import render_page
from cgmcr2.page.colors import PALETTE
from cgmcr2.page.data import headline
from cgmcr2.report.about import about_values
from cgmcr2.runs.edits import Edits
from cgmcr2.runs.folder import RunFolder, StrPath
from cgmcr2.runs.names import suggested_words
from cgmcr2.runs.search import embed_query, query_reader
from cgmcr2.words import TextEmbeddings, load_text_embeddings

from .duplicates import best_image
from .learning import Learning, StaleStateError
from .levels import level_edits
from .map import Map
from .pictures import MissingError, Pictures
from .snapshot import Snapshot
from .verbs import apply_edit

CACHE = ".explorer"  # folder of thumbnails and map in the run folder; it may be deleted at any time
TABLES: tuple[Kind, ...] = ("csv", "json", "parquet", "arrow", "lance")  # formats that need no images
MAX_GROUPS = 2_000  # groups of near-duplicates that are marked on all views; the others only on their own


class Session:
    """The edits of a run, and what the page shows of it. Holds the lock of the run folder while it is open.

    Methods may be called by several threads. Edits are applied one after the other; everything else reads the state at
    the time of the call.

    Parameters
    ----------
    run : a run folder
    images : location of the images, if they were moved
    text : file of words with embeddings in the space of the features, to search by text
    """

    def __init__(self, run: StrPath, images: StrPath | None = None, text: StrPath | None = None) -> None:
        self.run, self.images = RunFolder(run), images
        self.text = None if text is None else load_text_embeddings(text)
        self._stack = ExitStack()
        self._editing = threading.Lock()

    def __enter__(self) -> Session:
        with ExitStack() as stack:
            self.edits = self._open_edits()
            stack.push(self.edits)
            catalog, self.note = self._find_images()
            cache = self.run.path / CACHE
            self.pictures = Pictures(self.edits.fitted.ids, catalog, cache / "thumbnails.sqlite")
            stack.callback(self.pictures.close)
            self.map = Map(self.run, cache)
            self.learning = Learning(self.edits, self._editing, available=self._has_features and self._has_model)
            self.snapshot = Snapshot.of(self.edits)
            self._page = self.snapshot.state, self._render(self.snapshot)  # now, so that the page opens at once
            self._stack = stack.pop_all()
        cards = (cluster["typical"] + cluster["uncertain"] for cluster in self.snapshot.values["clusters"])
        self.pictures.prefetch([row for turn in zip_longest(*cards) for row in turn if row is not None])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._editing:  # an edit that is being written is finished
            self._stack.close()

    def _open_edits(self) -> Edits:
        try:
            return Edits(self.run).__enter__()
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            raise PermissionError(
                f"{self.run.path} cannot be written to, so edits could not be saved; "
                "copy the run folder to one of your own, and explore the copy."
            ) from error

    def _find_images(self) -> tuple[Catalog | None, str]:
        """The images, or None and the reason why the page shows file names."""
        if not self.run.info.encoder_name and self.images is None:
            return None, ""
        try:
            return self.run.catalog(self.images), ""
        except (OSError, ValueError) as error:
            if self.images is not None:
                raise
            return None, f"Showing file names, because the images were not found: {error}"

    @cached_property
    def features(self) -> FeatureSource | None:
        """The features (n, D) of all rows, or the embedding if they are no longer available."""
        ids = self.edits.fitted.ids
        return self.edits.fitted.embedding if (features := self.run.features(ids)) is None else features

    @property
    def _has_features(self) -> bool:
        return self.features is not None and self.features is not self.edits.fitted.embedding

    @property
    def _has_model(self) -> bool:
        return self.run.model_folder.is_dir()

    @property
    def _may_read_text(self) -> bool:
        """Whether searches by text are offered. An encoder in a folder must be loaded to know that it does not read."""
        if self.text is not None or self.run.info.encoder_name is None:
            return self.text is not None
        name = self.run.info.encoder_name.partition("?")[0]
        return self._has_features and all(info.reads_text for info in list_encoders() if info.name == name)

    @cached_property
    def _reader(self) -> TextEmbeddings | TextEncoder:
        return query_reader(self.run, self.text)

    @cached_property
    def _fixed_values(self) -> dict[str, Any]:
        """The part of the page's state that edits do not change."""
        fitted, info, has_images = self.edits.fitted, self.run.info, self.pictures.catalog is not None
        return {
            "n": len(fitted),
            "item": "image" if info.encoder_name or has_images else "row",
            "source": Path(info.source).name,
            "editable": True,
            "palette": PALETTE,
            "has_images": has_images,
            "has_dates": self.pictures.have_dates,
            "has_map": fitted.embedding is not None,
            "can_refine": self.learning.available,
            "can_embed": info.encoder_name is not None and self._has_features,
            "can_read": self._may_read_text,
            "note": self.note,
            "stability": info.stability,
            "duplicate_groups": len(self._duplicate_groups),
            "groups": self._duplicate_groups[:MAX_GROUPS],
            "formats": get_args(Kind) if has_images else TABLES,
            "suggestions": suggested_words(self.edits),
            "errors": self.run.read_errors(),
        }

    def state(self, snapshot: Snapshot | None = None) -> dict[str, Any]:
        """The state for the page."""
        snapshot = snapshot or self.snapshot
        fixed = self._fixed_values
        title = headline(fixed["n"], len(snapshot.clustering.clusters), fixed["item"])
        return {**fixed, "title": title, **snapshot.values}

    def page(self) -> str:
        """The HTML page of the current state."""
        snapshot, (state, html) = self.snapshot, self._page
        if state != snapshot.state:
            html = self._render(snapshot)
            self._page = snapshot.state, html
        return html

    def _render(self, snapshot: Snapshot) -> str:
        clustering, run = snapshot.clustering, self.run
        about = about_values(
            clustering,
            features=self.features,
            metrics=run.read_metrics(),
            settings=run.info.values(),
            errors=run.read_errors(),
        )
        values = self.state(snapshot)
        return render_page(values["title"], values["item"], about, source=values["source"], note=self.note)

    def ids(self, rows: list[int]) -> list[str]:
        """The ids of ``rows``."""
        ids = self.edits.fitted.ids
        return [ids[self._checked(row)] for row in rows]

    # --- editing -----------------------------------------------------------------------------------------------------

    def edit(self, verb: str, arguments: Mapping[str, Any], state: str) -> Snapshot:
        """Apply an edit to ``state``, which must be the current one, and return the new snapshot."""
        self.pictures.pause()
        with self._editing:
            if state != self.snapshot.state:
                raise StaleStateError("Another page has edited the clusters; this one shows its changes now.")
            apply_edit(self.edits, verb, arguments)
            self.snapshot = Snapshot.of(self.edits)
            return self.snapshot

    def accept(self, state: str, rows: list[int] | None = None) -> Snapshot:
        """Apply the last refinement, or these rows of it, to ``state`` as one edit, and return the new snapshot."""
        with self._editing:
            self.learning.accept(state, rows)
            self.snapshot = Snapshot.of(self.edits)
            return self.snapshot

    def preview_split(self, cluster: int, parts: int) -> list[list[int]]:
        """The rows of the parts of a cluster; those of the first one stay in the cluster."""
        clustering = self.snapshot.clustering
        moved = propose_split(clustering, cluster, parts, features=self.features)
        rest = np.setdiff1d(clustering.rows(cluster), np.concatenate(moved))
        return [rows.tolist() for rows in (rest, *moved)]

    def levels(self, clusters: int) -> list[tuple[str, dict[str, Any]]]:
        """The edits that lead to this number of clusters."""
        clustering = self.snapshot.clustering

        def split(cluster: int, parts: int) -> list[list[int]]:
            return [rows.tolist() for rows in propose_split(clustering, cluster, parts, features=self.features)]

        levels = None if moves_images(self.run.fitted, clustering) else self.run.levels
        return level_edits(clustering, clusters, split, levels)

    # --- searching ---------------------------------------------------------------------------------------------------

    def duplicates(self, start: int, count: int) -> dict[str, Any]:
        """Groups of near-duplicates, largest first, with the image to keep of each."""
        groups = self._duplicate_groups
        listed = []
        for rows in groups[start : start + count]:
            qualities = [self.pictures.quality(row) for row in rows]
            width, height, sharpness = zip(*qualities, strict=True)
            listed.append(
                {
                    "rows": rows,
                    "best": rows[best_image(qualities)],
                    "width": width,
                    "height": height,
                    "sharpness": sharpness,
                }
            )
        return {"total": len(groups), "groups": listed}

    @cached_property
    def _duplicate_groups(self) -> list[list[int]]:
        return sorted((rows.tolist() for rows in self.edits.fitted.duplicates()), key=lambda rows: -len(rows))

    def similar(self, row: int, count: int) -> dict[str, Any]:
        """The rows of features most similar to those of ``row``, which comes first."""
        features = self._searchable()
        return self._similar(read_rows(features, np.array([self._checked(row)]))[0], count)

    def similar_to_file(self, data: bytes, count: int) -> dict[str, Any]:
        """The rows of features most similar to those of an image file."""
        encoder = self.run.info.encoder_name
        if encoder is None or not self._has_features:
            raise ValueError("An image can only be searched for in runs on images whose features are available.")
        return self._similar(embed_file(data, encoder), count)

    def similar_to_text(self, query: str, count: int) -> dict[str, Any]:
        """The rows of features most similar to a text."""
        return self._similar(embed_query(query, self._reader), count)

    def _similar(self, query: Any, count: int) -> dict[str, Any]:
        features = self._searchable()
        if len(query) != features.shape[1]:
            raise ValueError(
                f"The query has {len(query)} features, but the images have {features.shape[1]}; both must be embedded "
                "by the same model."
            )
        rows, similarities = most_similar(features, query, count)
        return {"rows": rows.tolist(), "similarities": [round(value, 4) for value in similarities.tolist()]}

    def _searchable(self) -> FeatureSource:
        if self.features is None:
            raise ValueError("A search needs the features or the embedding of the run, but it has none.")
        return self.features

    def _checked(self, row: int) -> int:
        if not 0 <= row < len(self.edits.fitted):
            raise MissingError(f"There is no row {row}; rows are 0 ... {len(self.edits.fitted) - 1}.")
        return row

    # --- export ------------------------------------------------------------------------------------------------------

    def export(self, format: str, folder: str, link: str = "copy") -> dict[str, Any]:
        """Export the current clusters to a new folder or file, given by its absolute path."""
        if not folder.strip():
            raise ValueError("Give the folder or file to export to.")
        path = Path(folder).expanduser()
        if not path.is_absolute():
            path = self.run.path.absolute().parent / path
        result = export(self.snapshot.clustering, path, format, images=self.pictures.catalog, link=link)  # type: ignore[arg-type]
        return {"path": str(result.path), "files": result.written, "missing": result.missing}

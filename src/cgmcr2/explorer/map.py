"""The map of the embedding, computed once in the background and cached in a file."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np

from cgmcr2 import _checksums
from cgmcr2._files import replacing
from cgmcr2.report.projection import project
from cgmcr2.runs.folder import RunFolder

from .pictures import MissingError


class Map:
    """Positions of all rows of a run as little-endian uint16, (n, 2).

    Parameters
    ----------
    run : the run
    folder : where the positions are cached
    """

    def __init__(self, run: RunFolder, folder: Path) -> None:
        self.embedding = run.fitted.embedding
        checksum = (_checksums.read_checksums(run.path) or {}).get("embeddings.npy")
        self.path = folder / f"map-{checksum.xxh3[:16] if checksum else 'unknown'}.u16"
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    def positions(self) -> bytes | None:
        """The positions; None while they are computed, which the first call starts."""
        if self.embedding is None:
            raise MissingError("A map needs the embedding, but this run has none.")
        with self._lock:
            if self._error is not None:
                raise self._error
            if self._thread is None or not self._thread.is_alive():
                if self.path.is_file() and self.path.stat().st_size == 4 * len(self.embedding):
                    return self.path.read_bytes()
                self._thread = threading.Thread(target=self._compute, daemon=True)
                self._thread.start()
        return None

    def _compute(self) -> None:
        assert self.embedding is not None
        try:
            positions = project(self.embedding)
            for file in self.path.parent.glob("map-*.u16"):  # of an earlier fit
                file.unlink(missing_ok=True)
            with replacing(self.path) as temporary:
                temporary.write_bytes(np.rint(np.clip(positions, 0, 1) * 65535).astype("<u2").tobytes())
        except Exception as error:  # shown to the next request
            self._error = error

"""Thumbnails of the images of a run, made on demand and ahead of need, and kept in one file of bounded size."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import sqlite3
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from PIL import Image

from cgmcr2.images import Catalog, decode
from cgmcr2.images.catalog import ImageItem

MEMORY_BYTES = 2**27  # size of the cache where no file can be used
PAUSE = 0.5  # seconds without a request before thumbnails are made ahead of need


@dataclasses.dataclass(frozen=True)
class ThumbnailConfig:
    """Size of the thumbnails and of their cache."""

    side: int = 256  # pixels of the longer side: sharp on a card of 128 CSS pixels on a phone
    quality: int = 75  # of WebP: about 8 kB each
    max_bytes: int = 2**30  # of the cache: about 120,000 thumbnails


class Thumbnails:
    """WebP thumbnails of the images of a catalog, cached in an SQLite file that may be deleted at any time.

    Parameters
    ----------
    catalog : the images
    path : file of the cache; only one process may use it
    config : sizes
    """

    def __init__(self, catalog: Catalog, path: Path, config: ThumbnailConfig | None = None) -> None:
        self.catalog, self.path, self.config = catalog, path, config or ThumbnailConfig()
        self._lock = threading.Lock()
        self._last_request = -PAUSE  # time on the monotonic clock
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = self._connect()

    def _connect(self) -> sqlite3.Connection:
        with contextlib.suppress(sqlite3.DatabaseError):
            return self._open(str(self.path))
        with contextlib.suppress(sqlite3.DatabaseError, OSError):  # damaged
            for suffix in ("", "-wal"):
                Path(f"{self.path}{suffix}").unlink(missing_ok=True)
            return self._open(str(self.path))
        self.config = dataclasses.replace(self.config, max_bytes=MEMORY_BYTES)  # a file system without locks
        return self._open(":memory:")

    def _open(self, name: str) -> sqlite3.Connection:
        connection = sqlite3.connect(name, check_same_thread=False, isolation_level=None)
        try:
            # Safe against a killed process; after a power failure the cache may have to be made again.
            connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute("CREATE TABLE IF NOT EXISTS thumbnails (key BLOB UNIQUE, data BLOB)")
        except sqlite3.DatabaseError:
            connection.close()
            raise
        return connection

    def get(self, index: int) -> bytes:
        """The thumbnail of the image ``index`` of the catalog; an unreadable image raises what ``decode`` does."""
        data = self.cached(index)
        return self.make(index) if data is None else data

    def cached(self, index: int) -> bytes | None:
        """The thumbnail if it is in the cache."""
        self.pause()
        return self._read(self._key(self.catalog[index]))

    def make(self, index: int) -> bytes:
        """Make a thumbnail and store it in the cache."""
        item = self.catalog[index]
        image = decode(item, size=self.config.side)
        image.thumbnail((self.config.side, self.config.side), Image.Resampling.LANCZOS)
        file = io.BytesIO()
        image.save(file, "WEBP", quality=self.config.quality, method=2)
        self._write(self._key(item), file.getvalue())
        return file.getvalue()

    def prefetch(self, indices: Iterable[int]) -> None:
        """Make missing thumbnails in a background thread, in this order, while nobody asks for any."""
        self._thread = threading.Thread(target=self._prefetch, args=(list(indices),), daemon=True)
        self._thread.start()

    def pause(self) -> None:
        """Let the background thread wait for ``PAUSE`` seconds, because someone waits for something else."""
        self._last_request = time.monotonic()

    def close(self) -> None:
        """Stop the background thread and close the cache."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            self._connection.close()

    def _prefetch(self, indices: list[int]) -> None:
        for index in indices:
            while (wait := self._last_request + PAUSE - time.monotonic()) > 0 and not self._stopped.is_set():
                self._stopped.wait(wait)
            if self._stopped.is_set() or self._bytes() > 0.9 * self.config.max_bytes:  # room for requested ones
                return
            if self._read(self._key(self.catalog[index])) is None:
                with contextlib.suppress(Exception):  # the page shows the file name of an unreadable image
                    self.make(index)

    def _key(self, item: ImageItem) -> bytes:
        """Digest of id, size and time of an image, so that a changed image gets a new thumbnail."""
        text = f"{self.config.side} {self.config.quality} {item.size} {item.stamp} {item.id}"
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()

    def _read(self, key: bytes) -> bytes | None:
        with self._lock, contextlib.suppress(sqlite3.Error):
            row = self._connection.execute("SELECT data FROM thumbnails WHERE key = ?", (key,)).fetchone()
            return None if row is None else bytes(row[0])
        return None

    def _write(self, key: bytes, data: bytes) -> None:
        """Store a thumbnail; the oldest ones make room. A full disk or a closed cache is no error."""
        with self._lock, contextlib.suppress(sqlite3.Error):
            self._connection.execute("INSERT OR REPLACE INTO thumbnails VALUES (?, ?)", (key, data))
            if self._used() > self.config.max_bytes:
                oldest = "SELECT rowid FROM thumbnails ORDER BY rowid LIMIT 1 + (SELECT count(*) FROM thumbnails) / 20"
                self._connection.execute(f"DELETE FROM thumbnails WHERE rowid IN ({oldest})")  # noqa: S608 - constant

    def _bytes(self) -> int:
        with self._lock, contextlib.suppress(sqlite3.Error):
            return self._used()
        return self.config.max_bytes

    def _used(self) -> int:
        pages, unused, size = (
            self._connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - unused) * size)

"""``PageLimits``: how much of a run the report page holds."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class PageLimits:
    """Limits that keep the page quick to open, however large the run is."""

    rows: int = 100_000  # rows that are listed and mapped; of a larger run, a random sample
    thumbnails: int = 2_500  # images embedded in the page
    thumbnail_bytes: int = 20 * 2**20  # of all thumbnails together; 28 MB once encoded in base64
    typical: int = 28  # most typical images of a cluster; they get thumbnails before other images do
    uncertain: int = 12  # least certain images of a cluster; likewise
    similarity_rows: int = 400  # rows of the similarity matrices; one pixel each

    def __post_init__(self) -> None:
        if self.thumbnails > self.rows:
            raise ValueError(f"{self.thumbnails} thumbnails need at least as many rows, but rows is {self.rows}.")

"""What is known of a store's rows: labels, split and class names, kept beside the shards in ``labels.npz``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cgmcr2._files import replacing
from cgmcr2.features.store import FeatureStore

NAME = "labels.npz"


def write_known(store: FeatureStore, ids: Sequence[str], classes: Sequence[str], **arrays: npt.ArrayLike) -> None:
    """Keep ``arrays`` (``labels``, ``split``, others), whose rows are called ``ids``, for those rows the store has.

    >>> import tempfile
    >>> store = FeatureStore.create(tempfile.mkdtemp() + "/store", np.eye(2, dtype=np.float32), ["b", "a"])
    >>> write_known(store, ["a", "b", "broken"], ["cat", "dog"], labels=[0, 1, 1])
    >>> read_known(store)["labels"].tolist()
    [1, 0]
    """
    place = {id: row for row, id in enumerate(ids)}
    rows = np.array([place[id] for id in store.ids], dtype=np.int64)
    kept = {name: np.asarray(values)[rows] for name, values in arrays.items()}
    with replacing(store.path / NAME) as temporary:
        np.savez(temporary, content=store.content_fingerprint, classes=list(classes), **kept)  # type: ignore[arg-type]


def read_known(store: FeatureStore) -> dict[str, npt.NDArray[Any]]:
    """The arrays that were kept, and ``classes``; nothing where there are none, or the rows have changed since."""
    path = store.path / NAME
    if not path.is_file():
        return {}
    with np.load(path, allow_pickle=False) as archive:
        kept = dict(archive)
    return kept if str(kept.pop("content")) == store.content_fingerprint else {}

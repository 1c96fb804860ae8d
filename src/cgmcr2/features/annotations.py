"""Labels, split and class names of the rows of a feature store, in its file ``labels.npz``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cgmcr2._files import replacing
from cgmcr2.features.store import FeatureStore

FILE_NAME = "labels.npz"


def write_annotations(store: FeatureStore, ids: Sequence[str], classes: Sequence[str], **arrays: npt.ArrayLike) -> None:
    """Save ``arrays`` (``labels``, ``split``, ...), whose rows are the images ``ids``, in the order of the store.

    >>> import tempfile
    >>> store = FeatureStore.create(tempfile.mkdtemp() + "/store", np.eye(2, dtype=np.float32), ["b", "a"])
    >>> write_annotations(store, ["a", "b", "unreadable"], ["cat", "dog"], labels=[0, 1, 1])
    >>> read_annotations(store)["labels"].tolist()
    [1, 0]
    """
    row_of = {id: row for row, id in enumerate(ids)}
    rows = np.array([row_of[id] for id in store.ids], dtype=np.int64)
    content: dict[str, Any] = {name: np.asarray(values)[rows] for name, values in arrays.items()}
    with replacing(store.path / FILE_NAME) as temporary:
        np.savez(temporary, content=store.content_fingerprint, classes=list(classes), **content)


def read_annotations(store: FeatureStore) -> dict[str, npt.NDArray[Any]]:
    """Return the saved arrays and ``classes``; an empty dict if there are none or the rows have changed since."""
    path = store.path / FILE_NAME
    if not path.is_file():
        return {}
    with np.load(path, allow_pickle=False) as archive:
        content = dict(archive)
    return content if str(content.pop("content")) == store.content_fingerprint else {}

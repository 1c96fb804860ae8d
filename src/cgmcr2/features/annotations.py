"""Labels, split and class names of the rows of a feature store, in its file ``labels.npz``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from cgmcr2._checksums import DamagedFileError
from cgmcr2._files import replacing
from cgmcr2.features.npy import npz_names, read_npz
from cgmcr2.features.sealed import ADVICE
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
    content |= {"content": np.array(store.content_fingerprint), "classes": np.array(list(classes))}
    with replacing(store.path / FILE_NAME) as temporary:
        np.savez(temporary, **content, checksum=_checksum(content))


def read_annotations(store: FeatureStore) -> dict[str, npt.NDArray[Any]]:
    """Return the saved arrays and ``classes``; an empty dict if there are none or the rows have changed since."""
    path = store.path / FILE_NAME
    if not path.is_file():
        return {}
    try:
        content = read_npz(path, npz_names(path))
        if str(content.pop("checksum")) != _checksum(content):
            raise ValueError("its checksum differs")
        fingerprint = str(content.pop("content"))
    except Exception as error:  # zipfile and NumPy raise nearly any type for damaged files
        raise DamagedFileError(f"{path} is damaged ({error or type(error).__name__}); {ADVICE}.") from None
    return content if fingerprint == store.content_fingerprint else {}


def _checksum(arrays: dict[str, npt.NDArray[Any]]) -> str:
    state = xxhash.xxh3_128()
    for name in sorted(arrays):
        array = arrays[name]
        state.update(repr((name, array.dtype.str, array.shape)).encode())
        state.update(array.tobytes())
    return state.hexdigest()

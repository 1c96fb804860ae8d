"""Restricted unpickler for CIFAR: loads uint8 arrays, bytes, text, numbers, lists and dicts, and runs no code.

A pickle may call any function by name. The official batches call only the three that rebuild NumPy arrays. These are
replaced by small classes that store their arguments; any other name is refused.
"""

from __future__ import annotations

import math
import pickle
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray


class _Dtype:
    """Stand-in for ``numpy.dtype`` that stores only the name of the type."""

    def __init__(self, name: object = None, *_: object) -> None:
        self.name = name.decode("latin1") if isinstance(name, bytes) else name

    def __setstate__(self, state: object) -> None:
        """Ignore byte order and alignment, which do not apply to single bytes."""


class _Array:
    """Stand-in for ``numpy.ndarray``, for uint8 arrays only."""

    def __init__(self, *_: object) -> None:
        self.pixels: NDArray[np.uint8] = np.empty(0, np.uint8)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, fortran, data = state
        if not isinstance(dtype, _Dtype) or dtype.name != "u1" or not isinstance(data, bytes):
            raise pickle.UnpicklingError("array of a type other than uint8")
        if math.prod(shape) != len(data):
            raise pickle.UnpicklingError(f"array of shape {shape} with {len(data)} bytes")
        self.pixels = np.frombuffer(data, np.uint8).reshape(shape, order="F" if fortran else "C")


_REPLACEMENTS: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): _Dtype,
    ("numpy", "ndarray"): _Array,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
}


class _Unpickler(pickle.Unpickler):
    refused: str | None = None

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _REPLACEMENTS:
            self.refused = f"{module}.{name}"
            raise pickle.UnpicklingError("refused")
        return _REPLACEMENTS[module, name]


def load_arrays(file: IO[bytes], label: str) -> dict[str, Any]:
    """Read a pickled dict, written by Python 2 or 3, with its keys as text; ``label`` names the file in errors.

    >>> import io
    >>> load_arrays(io.BytesIO(pickle.dumps({b"labels": [3, 1]})), "data_batch_1")
    {'labels': [3, 1]}
    """
    unpickler = _Unpickler(file, encoding="bytes")
    try:
        value = unpickler.load()
    except Exception as error:  # a damaged pickle may raise any type
        if unpickler.refused:
            raise ValueError(
                f"{label!r} tries to load {unpickler.refused}, which the official files do not: it was not loaded, "
                "download the official file again."
            ) from None
        raise ValueError(
            f"{label!r} cannot be read as a pickled batch ({error}): download the official file again."
        ) from None
    if not isinstance(value, dict):
        raise ValueError(
            f"{label!r} contains a {type(value).__name__} instead of a dict: download the official file again."
        )
    return {_text(key): entry.pixels if isinstance(entry, _Array) else entry for key, entry in value.items()}


def _text(key: object) -> str:
    return key.decode("latin1") if isinstance(key, bytes) else str(key)

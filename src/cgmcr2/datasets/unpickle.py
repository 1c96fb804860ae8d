"""Pickles without their danger: only byte arrays, bytes, text, numbers, lists and dicts come out, nothing is called.

A pickle is a program that may call whatever it names. CIFAR's name three things, all to rebuild a numpy array. Here
these three names mean small classes of our own, which only keep what they are given; any other name is refused.
"""

from __future__ import annotations

import math
import pickle
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray


class _Dtype:
    """Stands for ``numpy.dtype``: the name of the type, nothing else."""

    def __init__(self, name: object = None, *_: object) -> None:
        self.name = name.decode("latin1") if isinstance(name, bytes) else name

    def __setstate__(self, state: object) -> None:
        """Byte order and alignment, which single bytes do not have."""


class _Array:
    """Stands for ``numpy.ndarray``: takes the state of an array of bytes."""

    def __init__(self, *_: object) -> None:
        self.pixels: NDArray[np.uint8] = np.empty(0, np.uint8)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, fortran, data = state
        if not isinstance(dtype, _Dtype) or dtype.name != "u1" or not isinstance(data, bytes):
            raise pickle.UnpicklingError("an array of something else than bytes")
        if math.prod(shape) != len(data):
            raise pickle.UnpicklingError(f"an array of shape {shape} with {len(data)} bytes")
        self.pixels = np.frombuffer(data, np.uint8).reshape(shape, order="F" if fortran else "C")


_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): _Dtype,
    ("numpy", "ndarray"): _Array,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
}


class _Unpickler(pickle.Unpickler):
    refused: str | None = None

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ADMITTED:
            self.refused = f"{module}.{name}"
            raise pickle.UnpicklingError("refused")
        return _ADMITTED[module, name]


def load_arrays(file: IO[bytes], label: str) -> dict[str, Any]:
    """The dict in a pickle that Python 2 or 3 wrote, its keys as text; ``label`` names the file in errors.

    >>> import io
    >>> load_arrays(io.BytesIO(pickle.dumps({b"labels": [3, 1]})), "data_batch_1")
    {'labels': [3, 1]}
    """
    unpickler = _Unpickler(file, encoding="bytes")
    try:
        value = unpickler.load()
    except Exception as error:  # a broken pickle may raise anything
        if unpickler.refused:
            raise ValueError(
                f"{label!r} asks to load {unpickler.refused}, which no official file does: it is refused, "
                "get the official file again."
            ) from None
        raise ValueError(
            f"{label!r} cannot be read as a pickled batch ({error}): get the official file again."
        ) from None
    if not isinstance(value, dict):
        raise ValueError(
            f"{label!r} holds a {type(value).__name__} where a dict is needed: get the official file again."
        )
    return {_text(key): entry.pixels if isinstance(entry, _Array) else entry for key, entry in value.items()}


def _text(key: object) -> str:
    return key.decode("latin1") if isinstance(key, bytes) else str(key)

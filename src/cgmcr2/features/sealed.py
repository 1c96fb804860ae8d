"""JSON files that end with a checksum of all bytes before it, so that any damage is detected when they are read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import xxhash

from cgmcr2._checksums import DamagedFileError
from cgmcr2._files import write_text

T = TypeVar("T")

ADVICE = "run the same embed command again"
_SEALED = re.compile(rb'(\{.*)"checksum": "([0-9a-f]{32})"\n\}\n', re.DOTALL)


def write_sealed(path: Path, content: dict[str, Any]) -> None:
    """Write ``content`` as JSON with one line per key, followed by its checksum, atomically.

    The file is ASCII: names of files that are not UTF-8 contain lone surrogates, which JSON can only store as escapes.
    """
    lines = (f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in content.items())
    body = "{\n" + ",\n".join(lines) + ",\n  "
    write_text(path, f'{body}"checksum": "{xxhash.xxh3_128_hexdigest(body.encode())}"\n}}\n')


def read_sealed(path: Path, type: type[T], *, format: int) -> T:
    """Read a file of :func:`write_sealed` into the dataclass ``type``.

    Raises ``DamagedFileError`` if the file is damaged, and ``ValueError`` if it is intact but has another format.

    >>> import tempfile
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Point:
    ...     x: int
    ...     format: int
    >>> path = Path(tempfile.mkdtemp()) / "point.json"
    >>> write_sealed(path, {"x": 3, "format": 1})
    >>> read_sealed(path, Point, format=1)
    Point(x=3, format=1)
    """
    data = path.read_bytes()
    match = _SEALED.fullmatch(data)
    if not match or xxhash.xxh3_128_hexdigest(match[1]) != match[2].decode():
        raise DamagedFileError(f"{path} is damaged (its checksum differs); {ADVICE}.")
    try:
        found = _decode(data, _Format).format
        if found != format:
            other = "a newer" if found > format else "an older"
            action = "update cgmcr2" if found > format else "create the feature store again in a new folder"
            raise ValueError(f"{path} was written by {other} version of cgmcr2 (format {found}); {action}.")
        return _decode(data, type)
    except (msgspec.DecodeError, json.JSONDecodeError, RecursionError) as error:
        raise DamagedFileError(f"{path} is damaged ({str(error).splitlines()[0]}); {ADVICE}.") from None


def _decode(data: bytes, type: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=type)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:  # msgspec rejects lone surrogates
        return msgspec.convert(json.loads(data), type)


class _Format(msgspec.Struct):
    format: int

"""Files on disk: atomic writes, and JSON that is validated when it is read."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path in the folder of ``path``; on success it replaces ``path``, on error it is deleted.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "a.txt"
    >>> with replacing(target) as temporary:
    ...     _ = temporary.write_text("whole")
    >>> target.read_text()
    'whole'
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:40]}.", suffix=".part" + path.suffix[:20], dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp creates files that only the owner can read
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except Exception as error:
        if _disk_is_full(error, path.parent):  # NumPy and safetensors report it in words of their own
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error
        raise
    finally:
        temporary.unlink(missing_ok=True)


def _disk_is_full(error: Exception, folder: Path) -> bool:
    if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
        return True
    named = isinstance(error, OSError) and error.errno is not None
    return not named and shutil.disk_usage(folder).free < 1 << 16


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` to ``path`` as UTF-8, atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write ``value`` to ``path`` as indented JSON, atomically."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def read_json(path: str | os.PathLike[str], type: type[T], *, format: int | None = None, advice: str) -> T:
    """Read a JSON file into ``type``, a dataclass or a generic type such as ``dict[str, int]``.

    Wrong types, missing keys and, if ``format`` is given, another value of the key ``format`` raise ``ValueError`` with
    one sentence that ends in ``advice``.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "sizes.json"
    >>> write_json(path, {"a": 1})
    >>> read_json(path, dict[str, int], advice="write it again")
    {'a': 1}
    >>> read_json(path, dict[str, str], advice="write it again")
    Traceback (most recent call last):
        ...
    ValueError: ...sizes.json is damaged (Expected `str`, got `int` - at `$[...]`); write it again.
    """
    data = Path(path).read_bytes()
    try:
        if format is not None:
            found = msgspec.json.decode(data, type=_Format).format
            if found != format:
                newer = " of a newer version of cgmcr2" if found > format else ""
                raise ValueError(f"{path} has format {found}{newer}, but this version reads format {format}; {advice}.")
        return msgspec.json.decode(data, type=type)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is damaged ({_first_line(error)}); {advice}.") from None


class _Format(msgspec.Struct):
    format: int


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]

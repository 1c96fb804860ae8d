"""Where the files of a data set lie below the path that the user gave."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cgmcr2.datasets.facts import DatasetInfo


def places(info: DatasetInfo, root: Path) -> Iterator[Path]:
    """The folders to look in: those that are named after the data set first, then ``root`` itself."""
    base = root.parent if root.is_file() else root
    yield from (base / folder for folder in info.folders)
    yield base


def find(info: DatasetInfo, root: Path, *names: str) -> Path:
    """The first of ``names`` (files or folders) that exists in one of the places; a ``FileNotFoundError`` if none.

    >>> import tempfile
    >>> from cgmcr2.datasets.facts import dataset_info
    >>> root = Path(tempfile.mkdtemp())
    >>> (root / "cifar10").mkdir()
    >>> (root / "cifar10" / "cifar-10-python.tar.gz").touch()
    >>> find(dataset_info("cifar10"), root, "cifar-10-batches-py", "cifar-10-python.tar.gz").name
    'cifar-10-python.tar.gz'
    """
    for place in places(info, root):
        for name in names:
            if (place / name).exists():
                return place / name
    needed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
    raise FileNotFoundError(f"{info.title} needs {needed} in '{root}', which is not there: {info.obtain}.")

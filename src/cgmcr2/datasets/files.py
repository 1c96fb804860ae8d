"""Find the official files of a data set, and read files in folders and tar archives."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from cgmcr2.datasets.info import DatasetInfo


def find_path(info: DatasetInfo, root: Path, *names: str) -> Path:
    """Return the first existing path among ``names``, in the folders of the data set and then in ``root`` itself.

    >>> import tempfile
    >>> from cgmcr2.datasets.info import dataset_info
    >>> root = Path(tempfile.mkdtemp())
    >>> (root / "cifar10").mkdir()
    >>> (root / "cifar10" / "cifar-10-python.tar.gz").touch()
    >>> find_path(dataset_info("cifar10"), root, "cifar-10-batches-py", "cifar-10-python.tar.gz").name
    'cifar-10-python.tar.gz'
    """
    base = root.parent if root.is_file() else root
    for folder in (*(base / folder for folder in info.folders), base):
        for name in names:
            if (folder / name).exists():
                return folder / name
    choices = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
    raise FileNotFoundError(f"{info.title} needs {choices} in '{root}', but it is missing: {info.obtain}.")


def read_files(path: Path, names: Sequence[str]) -> dict[str, bytes]:
    """Return the contents of the files ``names``, which may contain folders.

    ``path`` is a folder, a tar archive (plain or compressed), or one of the files in their folder. In an archive, the
    files may be in any folder.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_bytes(b"1")
    >>> read_files(folder, ["a.txt"]) == read_files(folder / "a.txt", ["a.txt"]) == {"a.txt": b"1"}
    True
    """
    if path.is_dir() or path.name in {Path(name).name for name in names}:
        folder = path if path.is_dir() else path.parent
        files = {name: (folder / name).read_bytes() for name in names if (folder / name).is_file()}
    else:
        files = _read_tar(path, names)
    for name in names:
        if name not in files:
            raise ValueError(f"'{path}' does not contain {name!r}: download the official file again.")
    return files


def _read_tar(path: Path, names: Sequence[str]) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                name = next((name for name in names if f"/{member.name}".endswith(f"/{name}")), None)
                if name is not None and member.isfile() and (file := archive.extractfile(member)):
                    files[name] = file.read()
                if len(files) == len(names):
                    break
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise ValueError(f"'{path}' cannot be read as a tar archive ({error}): download it again.") from None
    return files

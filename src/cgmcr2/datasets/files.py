"""Find the official files of a data set, and read files in folders and tar archives."""

from __future__ import annotations

import lzma
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from cgmcr2.datasets.info import DatasetInfo


def find_path(info: DatasetInfo, root: Path, *names: str) -> Path:
    """Return the first existing path among ``names``.

    The folders of the data set are searched first, then ``root`` itself; ``root`` may also be a file in that folder.

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
    missing = "it was not found" if len(names) == 1 else "none was found"
    raise FileNotFoundError(f"{info.title} needs {choices} in '{base}', but {missing}: {info.obtain}.")


def read_files(path: Path, names: Sequence[str]) -> dict[str, bytes]:
    """Return the contents of several files of one folder or tar archive.

    Parameters
    ----------
    path : Path
        Folder, tar archive (plain or compressed), or one of the files, whose folder is then searched. In an archive,
        the files may be in any folder.
    names : sequence of str
        Relative paths of the files.

    Returns
    -------
    files : dict of str to bytes
        Contents by name.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_bytes(b"1")
    >>> read_files(folder, ["a.txt"]) == read_files(folder / "a.txt", ["a.txt"]) == {"a.txt": b"1"}
    True
    """
    folder = _common_folder(path, names)
    if folder is None:
        files = _read_tar(path, names)
    else:
        files = {name: (folder / name).read_bytes() for name in names if (folder / name).is_file()}
    for name in names:
        if name not in files:
            raise FileNotFoundError(f"{name!r} was not found in '{folder or path}': download the official file again.")
    return files


def _common_folder(path: Path, names: Sequence[str]) -> Path | None:
    """Return the folder that ``names`` are relative to, or None if ``path`` is neither a folder nor one of the files.

    >>> _common_folder(Path("/devkit/data/meta.mat"), ["data/meta.mat"]).as_posix()
    '/devkit'
    """
    if path.is_dir():
        return path
    absolute = path.absolute()
    for name in names:
        parts = Path(name).parts
        if absolute.parts[-len(parts) :] == parts:
            return absolute.parents[len(parts) - 1]
    return None


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
    except (FileNotFoundError, PermissionError):
        raise
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        raise ValueError(f"'{path}' cannot be read as a tar archive ({error}): download it again.") from None
    return files

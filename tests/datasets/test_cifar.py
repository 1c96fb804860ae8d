"""CIFAR-10, CIFAR-20 and CIFAR-100 from small batches in the official format, and malicious pickles."""

from __future__ import annotations

import io
import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from cgmcr2.datasets import DatasetInfo, load_dataset
from cgmcr2.datasets.unpickle import load_arrays
from cgmcr2.images import decode

Small = Callable[..., DatasetInfo]
WriteTar = Callable[..., Path]


class Python2Pickler(pickle._Pickler):  # type: ignore[name-defined, misc]
    """Writes bytes as the ``str`` of Python 2, like the official batches."""

    dispatch: ClassVar[dict[Any, Any]] = dict(pickle._Pickler.dispatch)  # type: ignore[attr-defined]

    def save_str2(self, value: bytes) -> None:
        self.write(b"T" + struct.pack("<i", len(value)) + value)
        self.memoize(value)

    dispatch[bytes] = save_str2


def dump(value: Any) -> bytes:
    file = io.BytesIO()
    Python2Pickler(file, protocol=2).dump(value)
    data = file.getvalue().replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")
    return data.replace(b"X\x02\x00\x00\x00u1", b"U\x02u1")  # the name of the type is also a str of Python 2


def batch(n: int, **labels: list[int]) -> bytes:
    planes = np.zeros((n, 3, 1024), np.uint8)
    planes[:, 0], planes[:, 1], planes[:, 2] = 10, 20, 30
    planes[:, 0, 1] = np.arange(n)  # red of the second pixel of the first row
    return dump({b"data": planes.reshape(n, 3072), **{name.encode(): values for name, values in labels.items()}})


def cifar10_files() -> dict[str, bytes]:
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    files = {name: batch(4, labels=[i % 3, 0, 1, 2]) for i, name in enumerate(names)}
    return files | {"batches.meta": dump({b"label_names": [b"airplane", b"automobile", b"bird"]})}


def cifar100_files() -> dict[str, bytes]:
    return {
        "train": batch(4, fine_labels=[0, 1, 2, 3], coarse_labels=[0, 0, 1, 1]),
        "test": batch(2, fine_labels=[3, 0], coarse_labels=[1, 0]),
        "meta": dump(
            {b"fine_label_names": [b"apple", b"pear", b"bee", b"ant"], b"coarse_label_names": [b"fruit", b"insects"]}
        ),
    }


def unpack(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


@pytest.mark.parametrize("layout", ["tar", "folder", "root"])
def test_cifar10(tmp_path: Path, small: Small, write_tar: WriteTar, layout: str) -> None:
    root = tmp_path
    if layout == "tar":
        write_tar(
            tmp_path / "cifar-10-python.tar.gz",
            {f"cifar-10-batches-py/{name}": data for name, data in cifar10_files().items()},
            "w:gz",
        )
    else:
        folder = unpack(tmp_path / "cifar-10-batches-py", cifar10_files())
        root = folder if layout == "root" else tmp_path
    data = load_dataset(small("cifar10", train=20, test=4, classes=3), root)
    assert data.classes == ["airplane", "automobile", "bird"]
    assert data.labels[[0, 4, 8, 20]].tolist() == [0, 1, 2, 2]
    assert data.train_rows.tolist() == list(range(20))
    image = decode(data.catalog[23])
    assert image.size == (32, 32)
    assert (image.getpixel((0, 0)), image.getpixel((1, 0))) == ((10, 20, 30), (3, 20, 30))


def test_cifar20_is_cifar100_with_superclasses(tmp_path: Path, small: Small) -> None:
    unpack(tmp_path / "cifar100" / "cifar-100-python", cifar100_files())
    fine = load_dataset(small("cifar100", train=4, test=2, classes=4), tmp_path)
    coarse = load_dataset(small("cifar20", train=4, test=2, classes=2), tmp_path)
    assert fine.labels.tolist() == [0, 1, 2, 3, 3, 0]
    assert coarse.labels.tolist() == [0, 0, 1, 1, 1, 0]
    assert (fine.classes[2], coarse.classes) == ("bee", ["fruit", "insects"])
    assert fine.catalog.fingerprint == coarse.catalog.fingerprint


class Malicious:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.target),)


@pytest.mark.parametrize("protocol", range(6))
def test_malicious_pickle_is_refused(tmp_path: Path, protocol: int) -> None:
    data = pickle.dumps({"data": Malicious(tmp_path / "owned")}, protocol=protocol)
    with pytest.raises(ValueError, match=r"tries to load (posix|nt)\.mkdir, which the official files do not"):
        load_arrays(io.BytesIO(data), "data_batch_1")
    assert not (tmp_path / "owned").exists()


def test_malicious_batch_in_the_archive_is_refused(tmp_path: Path, write_tar: WriteTar) -> None:
    files = cifar10_files() | {"data_batch_3": pickle.dumps(Malicious(tmp_path / "owned"))}
    write_tar(tmp_path / "cifar-10-python.tar.gz", {f"cifar-10-batches-py/{n}": d for n, d in files.items()}, "w:gz")
    with pytest.raises(ValueError, match="'data_batch_3' tries to load"):
        load_dataset("cifar10", tmp_path)
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    "data",
    [
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"cnumpy\nload\n(S'x'\ntR.",
        b"cnumpy.core.multiarray\nscalar\n.",
        b"c__builtin__\ngetattr\n.",
        pickle.dumps({"data": np.array([{}], object)}),
        dump({b"data": np.zeros(3)}),
        dump({b"data": np.zeros(3, np.int8)}),
        b"",
        b"\x80\x02}q\x00",
        pickle.dumps([1, 2]),
    ],
)
def test_invalid_pickles_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="download the official file again"):
        load_arrays(io.BytesIO(data), "meta")


def test_wrong_number_of_class_names(tmp_path: Path, small: Small) -> None:
    unpack(tmp_path / "cifar-10-batches-py", cifar10_files())
    with pytest.raises(ValueError, match="has 3 class names, but needs 4"):
        load_dataset(small("cifar10", train=20, test=4, classes=4), tmp_path)


def test_missing_batch(tmp_path: Path) -> None:
    files = cifar10_files()
    del files["data_batch_5"]
    unpack(tmp_path / "cifar-10-batches-py", files)
    with pytest.raises(FileNotFoundError, match="'data_batch_5' was not found in"):
        load_dataset("cifar10", tmp_path)


def test_truncated_archive(tmp_path: Path, write_tar: WriteTar) -> None:
    path = write_tar(tmp_path / "cifar-10-python.tar.gz", cifar10_files(), "w:gz")
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match=r"cannot be read as a tar archive"):
        load_dataset("cifar10", tmp_path)

"""Headers of .npy files and .npz archives that promise more than they contain."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from cgmcr2.features.npy import map_npy, read_npy_header, read_npz


def npy_bytes(shape: str, dtype: str = "'<f4'", data: bytes = b"") -> bytes:
    """A .npy file with any header."""
    header = f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npy_bytes("(1000000000, 1000000)"), "needs 4,000,000,000,000,128"),
        (npy_bytes("(2, 2)", data=bytes(17)), "it has 145 bytes, but .* needs 144"),
        (npy_bytes("(2, 2)", data=bytes(15)), "it has 143 bytes"),
        (npy_bytes("(-1, -1)", data=bytes(4)), "invalid shape"),
        (npy_bytes("(2,)", "'|O'", bytes(16)), "Python objects"),
        (npy_bytes("(" * 90), "header is invalid"),
        (npy_bytes("__import__('os')"), "header is invalid"),
        (b"\x93NUMPY\x09\x00" + bytes(200), "not supported"),
        (b"", "magic"),
    ],
)
def test_invalid_npy_is_refused_before_it_is_mapped(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_npy_header(tmp_path / "x.npy")


def test_fortran_order_and_empty_arrays(tmp_path: Path) -> None:
    X = np.arange(6.0).reshape(2, 3)
    np.save(tmp_path / "x.npy", np.asfortranarray(X))
    np.testing.assert_array_equal(map_npy(tmp_path / "x.npy"), X)
    np.save(tmp_path / "empty.npy", X[:0])
    assert map_npy(tmp_path / "empty.npy").shape == (0, 3)


def test_npz_that_declares_more_than_it_contains(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("features.npy", npy_bytes("(1000000000, 1000)"))
    with pytest.raises(ValueError, match="needs 4,000,000,000,128"):
        read_npz(tmp_path / "x.npz", ["features"])


def test_npz_bomb_is_refused_before_decompression(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("features.npy", npy_bytes("(70000, 1000)", data=bytes(280_000_000)))
    assert (tmp_path / "x.npz").stat().st_size < 2 * 10**6
    monkeypatch.setattr("zipfile.ZipFile.open", None)
    with pytest.raises(ValueError, match="suspected decompression bomb"):
        read_npz(tmp_path / "x.npz", ["features"])


def test_npz_with_another_compression_is_refused(tmp_path: Path) -> None:
    content = io.BytesIO()
    np.save(content, np.zeros(1000))
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("x.npy", content.getvalue())
    with pytest.raises(ValueError, match="unsupported method"):
        read_npz(tmp_path / "x.npz", ["x"])

"""The images in a zip, a tar or an npz: listed from the directory of the archive, never unpacked to disk."""

from __future__ import annotations

import lzma
import os
import re
import stat
import tarfile
import zipfile
import zlib
from array import array
from typing import Any, NamedTuple, cast

import numpy as np

from cgmcr2.images.folder import Listing, is_skipped
from cgmcr2.images.sources import (
    MAX_MEMBER_BYTES,
    NpzMember,
    NpzSource,
    TarSource,
    ZipSource,
    open_stream,
    what_is_wrong,
)

_BROKEN = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError)


class _Member(NamedTuple):
    id: str
    problem: str | None
    size: int
    stamp: int
    place: int  # in the directory of the zip, or the offset of the bytes in the tar


def list_zip(path: str) -> tuple[Listing, ZipSource]:
    """The members of a zip in its own order; the stamp is their CRC, so that a copy of the archive is the same."""
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
    except (*_BROKEN, NotImplementedError) as error:
        raise ValueError(f"{path!r} cannot be read as a zip archive ({error}).") from None
    found: list[_Member] = []
    for place, info in enumerate(infos):
        name, problem = _member_id(info.filename)
        mode = info.external_attr >> 16
        if info.is_dir() or name is None:
            continue
        if not problem and stat.S_IFMT(mode):
            problem = what_is_wrong(mode)
        if not problem and info.flag_bits & 1:
            problem = "encrypted with a password"
        found.append(_Member(name, problem, info.file_size, info.CRC, place))
    listing, places = _sort_out(found)
    return listing, ZipSource(path, places)


def list_tar(path: str) -> tuple[Listing, TarSource]:
    """The members of a tar (plain, gz, bz2, xz) in its own order; the stamp is the time of the archive itself.

    A broken end loses what lies behind it, with an entry for the archive in the errors, but not what came before.
    """
    compression = _compression(path)
    stamp = os.stat(path).st_mtime_ns
    found: list[_Member] = []
    broken: str | None = None
    try:
        with open_stream(path, compression) as stream, tarfile.open(fileobj=stream, mode="r:") as archive:
            while (info := archive.next()) is not None:
                cast(Any, archive).members.clear()  # tarfile keeps all it has read, a kilobyte a member
                name, problem = _member_id(info.name)
                if info.isdir() or name is None:
                    continue
                if not problem and (not info.isreg() or info.issparse()):
                    problem = "a link, device or sparse file in the archive, not a plain file"
                found.append(_Member(name, problem, info.size, stamp, info.offset_data))
    except _BROKEN as error:
        if not found:
            raise ValueError(f"{path!r} cannot be read as a tar archive ({error}).") from None
        broken = f"the archive is broken after {found[-1].id!r}: {error}"
    listing, offsets = _sort_out(found)
    if broken:
        listing.errors.append((os.path.basename(path), broken))
    return listing, TarSource(path, compression, offsets, listing.sizes)


def list_npz(path: str) -> tuple[Listing, NpzSource]:
    """The rows of ``images`` in an npz, uint8 ``(n, H, W, C)`` with C 1, 3 or 4, or ``(n, H, W)``; the id: the row."""
    needed = "An npz of images needs the array 'images', uint8 of shape (n, height, width, 3) or (n, height, width)"
    try:
        with zipfile.ZipFile(path) as archive:
            if "images.npy" not in archive.namelist():
                names = ", ".join(name.removesuffix(".npy") for name in archive.namelist()[:8]) or "nothing"
                raise ValueError(f"{needed}, but {path!r} holds {names}.")
            info = archive.getinfo("images.npy")
            with archive.open(info) as file:
                read_header = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
                version, _ = np.lib.format.read_magic(file)
                shape, fortran_order, dtype = read_header[version](file)
                start = file.tell()
    except (*_BROKEN, KeyError) as error:
        raise ValueError(f"{path!r} cannot be read as an npz of images ({error}).") from None
    channels_fit = len(shape) == 3 or (len(shape) == 4 and shape[3] in (1, 3, 4))
    if dtype != np.uint8 or fortran_order or not channels_fit or 0 in shape[1:]:
        raise ValueError(f"{needed}, but in {path!r} it is {dtype} of shape {shape}.")
    listing = Listing()
    for row in range(shape[0]):
        listing.add(str(row), int(np.prod(shape[1:])), info.CRC)
    return listing, NpzSource(path, NpzMember("images.npy", start, shape[0], tuple(shape[1:])))


def _member_id(name: str) -> tuple[str | None, str | None]:
    """The id of an archive member and why it is refused, if it is; no id for what is skipped.

    >>> _member_id("./a/b.jpg"), _member_id("a/.DS_Store")
    (('a/b.jpg', None), (None, None))
    >>> _member_id("../b.jpg")
    ('../b.jpg', 'refused: its name points outside the archive')
    """
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith(("/", "\\")) or ".." in re.split(r"[/\\]", name) or re.match(r"[A-Za-z]:", name):
        return name, "refused: its name points outside the archive"
    if not parts or any(is_skipped(part) for part in parts):
        return None, None
    return "/".join(parts), None


def _sort_out(found: list[_Member]) -> tuple[Listing, array[int]]:
    """What can be used of the members, with their places; the rest goes to the errors of the listing."""
    listing, places = Listing(), array("q")
    last = {member.id: number for number, member in enumerate(found)}
    for number, (id, problem, size, stamp, place) in enumerate(found):
        if not problem and last[id] != number:
            problem = "in the archive more than once: the last counts"
        if not problem and size > MAX_MEMBER_BYTES:
            problem = f"too large for an image in an archive: {size / 2**20:.0f} MB"
        if problem:
            listing.errors.append((id, problem))
        else:
            listing.add(id, size, stamp)
            places.append(place)
    return listing, places


def _compression(path: str) -> str:
    with open(path, "rb") as file:
        start = file.read(6)
    magics = {b"\x1f\x8b": "gz", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz"}
    return next((name for magic, name in magics.items() if start.startswith(magic)), "")

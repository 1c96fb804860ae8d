"""Images inside a zip, tar or npz archive, listed from its directory and never unpacked to disk."""

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

from cgmcr2.images.folder import Listing, is_ignored
from cgmcr2.images.sources import (
    MAX_MEMBER_BYTES,
    NpzMember,
    NpzSource,
    TarSource,
    ZipSource,
    file_type_problem,
    open_stream,
)

_READ_ERRORS = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError)


class _Member(NamedTuple):
    id: str
    problem: str | None
    size: int
    stamp: int
    position: int  # index in the zip's directory, or byte offset in the uncompressed tar


def list_zip(path: str, *, max_member_bytes: int = MAX_MEMBER_BYTES) -> tuple[Listing, ZipSource]:
    """List the members of a zip in archive order.

    The stamp of a member is its CRC, so that a copied archive counts as unchanged. Members larger than
    ``max_member_bytes`` are reported as errors.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
    except (*_READ_ERRORS, NotImplementedError) as error:
        raise ValueError(f"{path!r} cannot be read as a zip archive ({error}).") from None
    members: list[_Member] = []
    for position, info in enumerate(infos):
        id, problem = _member_id(info.filename)
        mode = info.external_attr >> 16
        if info.is_dir() or id is None:
            continue
        if not problem and stat.S_IFMT(mode):
            problem = file_type_problem(mode)
        if not problem and info.flag_bits & 1:
            problem = "encrypted with a password"
        members.append(_Member(id, problem, info.file_size, info.CRC, position))
    listing, positions = _split_members(members, max_member_bytes)
    return listing, ZipSource(path, positions)


def list_tar(path: str, *, max_member_bytes: int = MAX_MEMBER_BYTES) -> tuple[Listing, TarSource]:
    """List the members of a tar (plain, gz, bz2 or xz) in archive order.

    The stamp of a member is the modification time of the archive. If the archive is truncated, the members before the
    damage are listed and the archive itself is reported as an error.
    """
    compression = _compression(path)
    stamp = os.stat(path).st_mtime_ns
    members: list[_Member] = []
    damage: str | None = None
    try:
        with open_stream(path, compression) as stream, tarfile.open(fileobj=stream, mode="r:") as archive:
            while (info := archive.next()) is not None:
                cast(Any, archive).members.clear()  # tarfile would keep about a kilobyte per member
                id, problem = _member_id(info.name)
                if info.isdir() or id is None:
                    continue
                if not problem and (not info.isreg() or info.issparse()):
                    problem = "a link, device or sparse file in the archive, not a regular file"
                members.append(_Member(id, problem, info.size, stamp, info.offset_data))
    except _READ_ERRORS as error:
        if not members:
            raise ValueError(f"{path!r} cannot be read as a tar archive ({error}).") from None
        damage = f"the archive is damaged after {members[-1].id!r}: {error}"
    listing, offsets = _split_members(members, max_member_bytes)
    if damage:
        listing.errors.append((os.path.basename(path), damage))
    return listing, TarSource(path, compression, offsets, listing.sizes)


def list_npz(path: str) -> tuple[Listing, NpzSource]:
    """List the rows of the array ``images`` in an npz; the id of an image is its row number.

    The array is uint8 of shape (n, H, W) or (n, H, W, C), where C is 1, 3 or 4.
    """
    requirement = (
        "An npz of images needs the array 'images', uint8 of shape (n, height, width, 3) or (n, height, width)"
    )
    try:
        with zipfile.ZipFile(path) as archive:
            if "images.npy" not in archive.namelist():
                names = ", ".join(name.removesuffix(".npy") for name in archive.namelist()[:8]) or "nothing"
                raise ValueError(f"{requirement}, but {path!r} contains {names}.")
            info = archive.getinfo("images.npy")
            with archive.open(info) as file:
                read_header = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
                version, _ = np.lib.format.read_magic(file)
                shape, fortran_order, dtype = read_header[version](file)
                start = file.tell()
    except (*_READ_ERRORS, KeyError) as error:
        raise ValueError(f"{path!r} cannot be read as an npz of images ({error}).") from None
    valid_shape = (len(shape) == 3 or (len(shape) == 4 and shape[3] in (1, 3, 4))) and 0 not in shape[1:]
    if dtype != np.uint8 or fortran_order or not valid_shape:
        raise ValueError(f"{requirement}, but in {path!r} it is {dtype} of shape {shape}.")
    listing = Listing()
    for row in range(shape[0]):
        listing.add(str(row), int(np.prod(shape[1:])), info.CRC)
    return listing, NpzSource(path, NpzMember("images.npy", start, shape[0], tuple(shape[1:])))


def _member_id(name: str) -> tuple[str | None, str | None]:
    """Return the id of an archive member, None if it is ignored, and the reason if it is refused.

    >>> _member_id("./a/b.jpg"), _member_id("a/.DS_Store")
    (('a/b.jpg', None), (None, None))
    >>> _member_id("../b.jpg")
    ('../b.jpg', 'refused: its name points outside the archive')
    """
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith(("/", "\\")) or ".." in re.split(r"[/\\]", name) or re.match(r"[A-Za-z]:", name):
        return name, "refused: its name points outside the archive"
    if not parts or any(is_ignored(part) for part in parts):
        return None, None
    return "/".join(parts), None


def _split_members(members: list[_Member], max_member_bytes: int) -> tuple[Listing, array[int]]:
    """Return the listing of the usable members and their positions; the other members become errors."""
    listing, positions = Listing(), array("q")
    last = {member.id: number for number, member in enumerate(members)}
    for number, (id, problem, size, stamp, position) in enumerate(members):
        if not problem and last[id] != number:
            problem = "duplicate name in the archive: the last one is used"
        if not problem and size > max_member_bytes:
            problem = f"too large for an image in an archive: {size / 2**20:.0f} MB"
        if problem:
            listing.errors.append((id, problem))
        else:
            listing.add(id, size, stamp)
            positions.append(position)
    return listing, positions


def _compression(path: str) -> str:
    with open(path, "rb") as file:
        start = file.read(6)
    magics = {b"\x1f\x8b": "gz", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz"}
    return next((name for magic, name in magics.items() if start.startswith(magic)), "")

"""Images inside a zip, tar or npz archive, listed from its directory and never unpacked to disk."""

from __future__ import annotations

import itertools
import lzma
import math
import os
import re
import stat
import struct
import sys
import tarfile
import zipfile
import zlib
from array import array
from typing import IO, Any, NamedTuple, cast

import numpy as np

from cgmcr2.images.folder import IMAGE_SUFFIXES, Listing, is_ignored
from cgmcr2.images.limits import FREE_BYTES, MAX_MEMBER_BYTES, MAX_RATIO, check_file_size, check_ratio
from cgmcr2.images.sources import NpzMember, NpzSource, TarSource, ZipSource, file_type_problem, open_stream
from cgmcr2.images.storage import FileInfo, StorageError, open_file, read_range, redact

_OVERLAP = "overlaps another member of the archive, as in a zip bomb"
_MAX_HEADER_BYTES = 2**20  # a tar header has 512 bytes, an extended header with a long name some thousand
_READ_ERRORS = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError)


class _Member(NamedTuple):
    id: str
    problem: str | None
    size: int
    stamp: int
    position: int  # index in the zip's directory, or byte offset in the uncompressed tar


def list_zip(file: FileInfo, *, max_member_bytes: int = MAX_MEMBER_BYTES) -> tuple[Listing, ZipSource]:
    """List the members of a zip in archive order.

    The stamp of a member is its CRC, so that a copied archive counts as unchanged. Members larger than
    ``max_member_bytes`` are reported as errors.
    """
    try:
        with open_file(file) as opened, zipfile.ZipFile(opened) as archive:
            infos = archive.infolist()
    except (*_READ_ERRORS, NotImplementedError, ValueError, struct.error) as error:
        raise ValueError(f"{redact(file.path)!r} cannot be read as a zip archive ({error}).") from None
    overlapping = _overlapping(infos)
    members: list[_Member] = []
    for position, info in enumerate(infos):
        id, problem = _member_id(info.filename)
        if info.is_dir() or id is None:
            continue
        problem = problem or _zip_problem(info) or (_OVERLAP if position in overlapping else None)
        members.append(_Member(id, problem, info.file_size, info.CRC, position))
    listing, positions = _split_members(members, max_member_bytes)
    return listing, ZipSource(file, positions)


def _zip_problem(info: zipfile.ZipInfo) -> str | None:
    """Return why a member of a zip cannot be read, None if it can."""
    mode = info.external_attr >> 16
    if stat.S_IFMT(mode) and (problem := file_type_problem(mode)):
        return problem
    if info.flag_bits & 1:
        return "encrypted with a password"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # zipfile expands them without a limit
        return "compressed with an unsupported method: only stored and deflated members of a zip are read"
    return None


def _overlapping(infos: list[zipfile.ZipInfo]) -> set[int]:
    """Return the positions of members whose data overlaps that of the next one, as in zip bombs."""
    order = sorted(range(len(infos)), key=lambda position: infos[position].header_offset)
    return {
        position
        for position, following in itertools.pairwise(order)
        if infos[position].header_offset + infos[position].compress_size > infos[following].header_offset
    }


class _TarStream:
    """Uncompressed tar of which the headers are read: limits the size of a read and the position."""

    def __init__(self, stream: IO[bytes], limit: int) -> None:
        self.stream, self.limit = stream, limit
        self.tell = stream.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _MAX_HEADER_BYTES:
            raise tarfile.ReadError(f"a header has {size:,} bytes, the limit is {_MAX_HEADER_BYTES:,}")
        return self.stream.read(size)

    def seek(self, position: int, whence: int = os.SEEK_SET) -> int:
        if whence != os.SEEK_SET or position > self.limit:
            raise tarfile.ReadError(f"suspected decompression bomb: it expands to more than {self.limit:,} bytes")
        return self.stream.seek(position)


def list_tar(
    file: FileInfo,
    *,
    samples: bool = False,
    max_member_bytes: int = MAX_MEMBER_BYTES,
    free_bytes: int = FREE_BYTES,
) -> tuple[Listing, TarSource]:
    """List the members of a tar (plain, gz, bz2 or xz) in archive order.

    Metadata of an image (``0001.json`` beside ``0001.jpg``, as in WebDataset) is left out; with ``samples``, so is
    every further image of the same sample.
    The stamp of a member is that of the archive. If the archive is truncated, the members before the
    damage are listed and the archive itself is reported as an error; likewise if it expands to more than ``free_bytes``
    and 100 times its size.
    """
    compression = _compression(file)
    members: list[_Member] = []
    damage: str | None = None
    try:
        limit = max(free_bytes, MAX_RATIO * file.size) if compression else sys.maxsize
        with (
            open_stream(file, compression) as stream,
            tarfile.open(fileobj=cast(IO[bytes], _TarStream(stream, limit)), mode="r:") as archive,
        ):
            while (info := archive.next()) is not None:
                cast(Any, archive).members.clear()  # tarfile would keep about a kilobyte per member
                id, problem = _member_id(info.name)
                if info.isdir() or id is None:
                    continue
                if not problem and (not info.isreg() or info.issparse()):
                    problem = "a link, device or sparse file in the archive, not a regular file"
                members.append(_Member(id, problem, info.size, file.stamp, info.offset_data))
    except StorageError as error:  # an incomplete list would be taken for the whole archive
        raise StorageError(f"{redact(file.path)} cannot be listed: {error}.") from error
    except (*_READ_ERRORS, ValueError) as error:
        if not members:
            raise ValueError(f"{redact(file.path)!r} cannot be read as a tar archive ({error}).") from None
        damage = f"the archive is damaged after {members[-1].id!r}: {error}"
    listing, offsets = _split_members(_without_metadata(members, samples), max_member_bytes)
    if damage:
        listing.errors.append((os.path.basename(file.path), damage))
    return listing, TarSource(file, compression, offsets, listing.sizes)


def _without_metadata(members: list[_Member], samples: bool) -> list[_Member]:
    """Return the images of each sample, which are consecutive members whose names agree up to the first dot."""
    kept: list[_Member] = []
    for key, group in itertools.groupby(members, lambda member: re.sub(r"\.[^/]*$", "", member.id)):
        sample = list(group)
        images = [member for member in sample if member.id.lower().endswith(IMAGE_SUFFIXES)]
        if images:
            kept.extend(images[:1] if samples else images)
        else:
            kept.extend([sample[0]._replace(id=key, problem="the sample has no image")] if samples else sample)
    return kept


def list_npz(file: FileInfo) -> tuple[Listing, NpzSource]:
    """List the rows of the array ``images`` in an npz; the id of an image is its row number.

    The array is uint8 of shape (n, H, W) or (n, H, W, C), where C is 1, 3 or 4.
    """
    requirement = (
        "An npz of images needs the array 'images', uint8 of shape (n, height, width, 3) or (n, height, width)"
    )
    path = redact(file.path)
    try:
        with open_file(file) as opened, zipfile.ZipFile(opened) as archive:
            if "images.npy" not in archive.namelist():
                names = ", ".join(name.removesuffix(".npy") for name in archive.namelist()[:8]) or "nothing"
                raise ValueError(f"{requirement}, but {path!r} contains {names}.")
            info = archive.getinfo("images.npy")
            with archive.open(info) as member:
                read_header = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
                version, _ = np.lib.format.read_magic(member)
                shape, fortran_order, dtype = read_header[version](member)
                start = member.tell()
    except Exception as error:  # the header is parsed as Python source, which can raise nearly any type
        if str(error).startswith(requirement):
            raise
        raise ValueError(f"{path!r} cannot be read as an npz of images ({error or type(error).__name__}).") from None
    valid_shape = (len(shape) == 3 or (len(shape) == 4 and shape[3] in (1, 3, 4))) and 0 not in shape[1:]
    if dtype != np.uint8 or fortran_order or not valid_shape:
        raise ValueError(f"{requirement}, but in {path!r} it is {dtype} of shape {shape}.")
    size = math.prod(shape[1:])
    if info.file_size != start + shape[0] * size:
        raise ValueError(
            f"{path!r} is damaged: its images of shape {shape} need {start + shape[0] * size:,} bytes, "
            f"but it has {info.file_size:,}."
        )
    check_file_size(size, MAX_MEMBER_BYTES)
    check_ratio(repr(path), info.file_size, info.compress_size)
    listing = Listing()
    for row in range(shape[0]):
        listing.add(str(row), size, info.CRC)
    return listing, NpzSource(file, NpzMember("images.npy", start, shape[0], tuple(shape[1:])))


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


def _compression(file: FileInfo) -> str:
    start = read_range(file.path, 0, min(6, file.size))
    magics = {b"\x1f\x8b": "gz", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz"}
    return next((name for magic, name in magics.items() if start.startswith(magic)), "")

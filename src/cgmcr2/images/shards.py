"""Data sets in many files: WebDataset tars, Parquet files, and Hugging Face data sets on disk."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from cgmcr2.images.archives import list_tar
from cgmcr2.images.folder import Listing
from cgmcr2.images.sources import ArchiveSource, ConcatenatedSource
from cgmcr2.images.storage import FileInfo, StorageError, file_info
from cgmcr2.images.tables import list_arrow, list_parquet

TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
_FORMATS: dict[tuple[str, ...], Callable[[FileInfo], tuple[Listing, ArchiveSource]]] = {
    TAR_SUFFIXES: functools.partial(list_tar, samples=True),
    (".arrow",): list_arrow,
    (".parquet",): list_parquet,  # after tar: img2dataset writes tars of images and Parquet files of their captions
}
_SUFFIX = re.compile(r"\.(tar|tar\.\w+|tgz|tbz2|txz|arrow|parquet)$", re.IGNORECASE)  # not that of part.0.parquet
_METADATA_SUFFIXES = (".json", ".jsonl", ".txt", ".csv", ".tsv", ".md", ".idx", ".lock")
_LISTING_THREADS = 16  # listing a remote shard mostly waits for answers


def expand_braces(pattern: str) -> list[str]:
    """Return the names that a pattern of WebDataset stands for.

    >>> expand_braces("{train,test}/{08..10}.tar")[:4]
    ['train/08.tar', 'train/09.tar', 'train/10.tar', 'test/08.tar']
    """
    match = re.search(r"\{(?:(\d+)\.\.(\d+)|([^{}]*,[^{}]*))\}", pattern)
    if match is None:
        return [pattern]
    first, last, words = match.groups()
    if words is None:
        options: Iterable[str] = (str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))
    else:
        options = words.split(",")
    tails = expand_braces(pattern[match.end() :])
    return [pattern[: match.start()] + option + tail for option in options for tail in tails]


def shard_names(names: Iterable[str]) -> list[str]:
    """Return the shards among the files of a folder; none if it also holds other files than shards and metadata."""
    files = {suffixes: list[str]() for suffixes in _FORMATS}
    for name in names:
        lower = name.lower()
        suffixes = next((suffixes for suffixes in _FORMATS if lower.endswith(suffixes)), None)
        if suffixes is not None:
            files[suffixes].append(name)
        elif not lower.endswith(_METADATA_SUFFIXES):
            return []
    shards = next((shards for shards in files.values() if shards), [])
    return [name for name in shards if not os.path.basename(name).startswith("cache-")]  # of datasets.map


def list_pattern(pattern: str) -> tuple[Listing, ConcatenatedSource]:
    """List the images of the shards that a pattern such as ``shards/{000..099}.tar`` stands for."""
    base = pattern.partition("{")[0].rpartition("/")[0]
    paths = expand_braces(pattern)
    with ThreadPoolExecutor(_LISTING_THREADS) as pool:
        files = list(pool.map(file_info, paths))
    return list_shards({path.removeprefix(base).lstrip("/"): file for path, file in zip(paths, files, strict=True)})


def list_shards(files: dict[str, FileInfo]) -> tuple[Listing, ConcatenatedSource]:
    """List the images of shards, given by name; the id of an image is ``shard/name`` or ``shard/row``.

    A shard that is damaged becomes an error of the listing.
    """
    listing, sources, lengths = Listing(), list[ArchiveSource](), list[int]()
    with ThreadPoolExecutor(_LISTING_THREADS) as pool:
        for name, result in zip(files, pool.map(_list_shard, files.values()), strict=True):
            if isinstance(result, str):
                listing.errors.append((name, result))
                continue
            shard, source = result
            prefix = _SUFFIX.sub("", name)
            listing.ids.extend(f"{prefix}/{id}" for id in shard.ids)
            listing.sizes.extend(shard.sizes)
            listing.stamps.extend(shard.stamps)
            listing.errors.extend((f"{prefix}/{id}", reason) for id, reason in shard.errors)
            sources.append(source)
            lengths.append(len(shard.ids))
    return listing, ConcatenatedSource(sources, lengths)


def _list_shard(file: FileInfo) -> tuple[Listing, ArchiveSource] | str:
    lower = file.path.lower()
    list_file = next((function for suffixes, function in _FORMATS.items() if lower.endswith(suffixes)), None)
    if list_file is None:
        raise ValueError(f"{file.path!r} is not a shard: its name must end in .tar, .parquet or .arrow.")
    try:
        return list_file(file)
    except StorageError:  # an unreachable server, or a table without images
        raise
    except ValueError as error:
        return str(error)

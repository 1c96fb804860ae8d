"""The address of the last start, so that an open page finds the server again after a restart."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import msgspec

from .security import TOKEN_LENGTH, new_token


class Address(msgspec.Struct, frozen=True):
    """Port and token of a server."""

    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)]
    token: Annotated[str, msgspec.Meta(pattern=rf"^[\w-]{{{TOKEN_LENGTH}}}$")]
    fit: str  # hash of the fitted clustering; another fit needs another address, by which browsers cache pictures


def read_address(path: Path, fit: str) -> Address:
    """The address of the last start with the same fit, or port 0 and a new token."""
    with contextlib.suppress(OSError, msgspec.DecodeError):
        address = msgspec.json.decode(path.read_bytes(), type=Address)
        if address.fit == fit:
            return address
    return Address(0, new_token(), fit)


def write_address(path: Path, address: Address) -> None:
    """Write the address to a file that only its owner can read."""
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(msgspec.json.encode(address))

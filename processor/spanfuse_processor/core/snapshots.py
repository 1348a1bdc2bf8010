"""States as versioned msgpack: the first two fields are the version and the key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgpack

from spanfuse_processor.errors import StateError

State = TypeVar("State")


def pack(version: int, key: str, *fields: Any) -> bytes:
    """A snapshot."""
    return bytes(msgpack.packb([version, key, *fields], unicode_errors="surrogatepass"))


def unpack(data: bytes, what: str, version: int, restored: Callable[[str, list[Any]], State]) -> State:
    """The inverse of `pack`.

    Args:
        what: whose snapshot it is, for the error.
        restored: makes a state of its key and its fields.

    Raises:
        StateError: if the bytes are no snapshot, or one of another version.
    """
    try:
        found, key, *fields = msgpack.unpackb(data, raw=False, unicode_errors="surrogatepass", strict_map_key=False)
        if found == version:
            return restored(key, fields)
    except Exception as error:
        raise StateError(f"not a {what} snapshot: {error}") from error
    raise StateError(f"{what} snapshot of version {found}; this build reads {version}")

"""Where a page of a list ended, as a text that is good for nothing else."""

from __future__ import annotations

from spanfuse_processor.errors import QueryError

_LAST = 2**63


def next_of(at: int, name: bytes) -> str:
    """The cursor behind a row.

    Args:
        at: what the list is sorted by.
        name: what tells rows apart that are equal in it.
    """
    return f"{at}-{name.hex()}"


def place_of(cursor: str) -> tuple[int, bytes]:
    """The inverse.

    Raises:
        QueryError: this is no cursor.
    """
    number, _, name = cursor.partition("-")
    try:
        if number.isascii() and number.isdecimal() and len(number) < 20 and name and int(number) < _LAST:
            return int(number), bytes.fromhex(name)
    except ValueError:
        pass
    raise QueryError("the cursor is none of this list")

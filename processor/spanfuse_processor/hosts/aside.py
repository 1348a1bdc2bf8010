"""Work on requests that would keep others waiting: it is done on a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

LARGE_BYTES: Final = 256 * 1024
"""Requests above this, some hundred spans, are read on a thread: those who listen, and detection, must not wait for them."""

P = ParamSpec("P")
T = TypeVar("T")


async def aside(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do the work, of a large request beside the event loop.

    Args:
        size: of the request, bytes.
    """
    return await asyncio.to_thread(work, *args, **kwargs) if size > LARGE_BYTES else work(*args, **kwargs)

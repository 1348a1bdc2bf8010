"""What cannot be read goes to the dead letters, as it came, as far as they take it."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from spanfuse_processor.hosts.stream.outbox import Outbox
from spanfuse_schemas.topics import DEAD_LETTER

MAX_LETTER_BYTES: Final = 14 * 1024 * 1024
"""Bytes kept of a dead letter: what a producer may send, with room for key and headers."""
MAX_KEY_BYTES: Final = 64 * 1024
"""Bytes kept of its key."""


async def dead_letter(outbox: Outbox, message: Any, reason: str) -> asyncio.Future[object]:
    """Send the message's bytes to the dead letters; what is larger than they take is cut, and `size` says how long it was.

    Args:
        reason: why, in a few words; with the source's topic, partition and offset it goes into the headers.
    """
    headers = [
        ("reason", reason.encode("utf-8", "replace")[:1000]),
        ("topic", message.topic.encode()),
        ("partition", str(message.partition).encode()),
        ("offset", str(message.offset).encode()),
    ]
    value, key = message.value or b"", message.key
    if len(value) > MAX_LETTER_BYTES:
        headers.append(("size", str(len(value)).encode()))
        value = value[:MAX_LETTER_BYTES]
    return await outbox.send(DEAD_LETTER, value, key=key and key[:MAX_KEY_BYTES], headers=headers)

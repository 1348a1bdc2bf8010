"""What cannot be read goes to the dead letters, as it came."""

from __future__ import annotations

import asyncio
from typing import Any

from spanfuse_processor.hosts.stream.outbox import Outbox
from spanfuse_schemas.topics import DEAD_LETTER


async def dead_letter(outbox: Outbox, message: Any, reason: str) -> asyncio.Future[object]:
    """Send the message's bytes to the dead letters.

    Args:
        reason: why, in a few words; with the source's topic, partition and offset it goes into the headers.
    """
    headers = [
        ("reason", reason.encode("utf-8", "replace")[:1000]),
        ("topic", message.topic.encode()),
        ("partition", str(message.partition).encode()),
        ("offset", str(message.offset).encode()),
    ]
    return await outbox.send(DEAD_LETTER, message.value or b"", key=message.key, headers=headers)

"""The alerts in the Redis of the read model."""

from __future__ import annotations

from typing import Any, Final

from spanfuse_processor.exporters.alerts.store import Rows
from spanfuse_processor.exporters.readmodel.redis_link import RedisLink

LASTS_S: Final = 30 * 86_400
"""How long alerts of a deployment that is gone are remembered, seconds."""


class RedisAlerts:
    """A hash.

    Args:
        link: to Redis; whoever gives it closes it.
    """

    def __init__(self, link: RedisLink) -> None:
        self._link, self._key = link, link.shared("alerts")

    async def load(self) -> dict[str, bytes]:
        """All rows."""
        (found,) = await self._link.together([("HGETALL", self._key)])
        return {id.decode(): row for id, row in found.items()}

    async def save(self, rows: Rows) -> None:
        """Write these."""
        kept = [part for id, row in rows.items() if row is not None for part in (id, row)]
        gone = [id for id, row in rows.items() if row is None]
        commands: list[tuple[Any, ...]] = [("HSET", self._key, *kept)] if kept else []
        if gone:
            commands.append(("HDEL", self._key, *gone))
        await self._link.together([*commands, ("EXPIRE", self._key, LASTS_S)])

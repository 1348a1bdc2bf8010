"""Redis or Valkey as the read model of workers: where it is, and what its keys are called.

What one partition of a topic tells lies together, by a hash tag, so that it is one slot of a cluster.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import redis
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from spanfuse_processor.errors import ConfigError, UnavailableError

TIMEOUT_S: Final = 2.0
"""How long connecting, and each answer, may take, seconds."""
DAY_S: Final = 24 * 3600
_NOT_NOW: Final = frozenset({"OOM", "LOADING", "READONLY", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "BUSY", "MISCONF"})
"""How answers begin that may be others later."""


class RedisLink:
    """A connection to the read model; nothing is dialled before the first question.

    Args:
        address: `redis://HOST:PORT/DB`, also `rediss` and `unix`; after `?`: `tenant`, `cluster=1`, `timeout_ms`.
        partitions: number of partitions of `spanfuse.calls`.

    Raises:
        ConfigError: this is no such address.
    """

    def __init__(self, address: str, partitions: int) -> None:
        parts = urlsplit(address)
        given = dict(parse_qsl(parts.query))
        self.tenant = given.pop("tenant", "default")
        self._is_cluster = given.pop("cluster", "0") in ("1", "true")
        timeout_s = float(given.pop("timeout_ms", TIMEOUT_S * 1000)) / 1000
        if parts.scheme not in ("redis", "rediss", "unix") or given or {"{", "}"} & {*self.tenant}:
            raise ConfigError(["extensions.readmodel.address: write redis://HOST:PORT/DB?tenant=NAME"])
        self.partitions = partitions
        self._where = parts.hostname or parts.path
        options: dict[str, Any] = {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s}
        url = urlunsplit(parts._replace(query=""))
        self.client: Any = (
            redis.asyncio.RedisCluster.from_url(url, **options)
            if self._is_cluster
            else redis.asyncio.Redis.from_url(url, retry=Retry(NoBackoff(), 1), **options)
        )

    def key(self, partition: int, what: str, name: bytes = b"") -> bytes:
        """A key of a partition."""
        head = f"spanfuse:{{{self.tenant}.{partition}}}:{what}".encode()
        return head + b":" + name if name else head

    def shared(self, what: str) -> bytes:
        """A key of all partitions."""
        return f"spanfuse:{{{self.tenant}}}:{what}".encode()

    async def together(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        """The answers to several questions, in one round trip.

        Raises:
            UnavailableError: Redis does not answer, or refuses one.
        """
        answers = await self.sent(commands)
        for answer in answers:
            if isinstance(answer, Exception):
                raise UnavailableError(f"the read model in Redis at {self._where} refuses: {answer}") from answer
        return answers

    async def sent(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        """Several commands in one round trip, not as a transaction; on a cluster to each node its own. What Redis refuses for
        good has an exception as its answer.

        Raises:
            UnavailableError: Redis does not answer, or not now.
        """
        if not commands:
            return []
        pipeline = self.client.pipeline() if self._is_cluster else self.client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        answers: list[Any] = await self.asked(pipeline.execute(raise_on_error=False))
        for answer in answers:
            if isinstance(answer, Exception) and (_NOT_NOW & {*str(answer).split()[:2]} or _is_lost(answer)):
                raise UnavailableError(f"the read model in Redis at {self._where}: {answer}") from answer
        return answers

    async def asked(self, work: Awaitable[Any]) -> Any:
        """An answer.

        Raises:
            UnavailableError: Redis does not answer, or refuses.
        """
        with self._named():
            return await work

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except (redis.RedisError, OSError, TimeoutError) as error:
            why = str(error) or type(error).__name__
            raise UnavailableError(f"the read model in Redis at {self._where} does not answer: {why}") from error

    async def close(self) -> None:
        """Let the connections go."""
        await self.client.aclose()


def _is_lost(answer: Exception) -> bool:
    return isinstance(answer, (redis.ConnectionError, redis.TimeoutError, OSError))

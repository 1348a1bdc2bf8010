"""Decisions from the control topic itself, with the extra `kafka`."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from spanfuse.subscribers.base import Sink, Snapshot, ThreadSubscriber
from spanfuse_schemas import POLICY_KEY
from spanfuse_schemas.topics import CONTROL

try:
    from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
except ImportError as error:  # pragma: no cover  Proven in an interpreter without it.
    raise ImportError("KafkaSubscriber needs the extra kafka: pip install 'spanfuse[kafka]'") from error

HEARTBEAT_S: Final = 5.0
"""How often the broker is asked for a sign of life when no decision arrives, seconds."""
ANSWER_S: Final = 5.0
"""How long the broker may take to answer, seconds."""

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

_THREAD: Final = "spanfuse-kafka"
_AIOKAFKA_LOGS: Final = (
    "",
    ".cluster",
    ".conn",
    ".consumer.consumer",
    ".consumer.fetcher",
    ".consumer.group_coordinator",
    ".producer.producer",
    ".producer.sender",
)


_said = threading.local()


def _not_ours(record: logging.LogRecord) -> bool:
    """Keep back what aiokafka says in our threads, a line for each attempt; the last is the reason of our own line."""
    if not (record.threadName or "").startswith(_THREAD):
        return True
    if record.levelno >= logging.WARNING:
        _said.last = record.getMessage()
    return False


for _name in _AIOKAFKA_LOGS:
    logging.getLogger(f"aiokafka{_name}").addFilter(_not_ours)


@dataclass(frozen=True)
class Connection:
    """How to reach Kafka. What is None comes from `SPANFUSE_KAFKA_<NAME>`, else from the default."""

    brokers: str | None = None
    """`host:port`, several with commas; default 127.0.0.1:9092."""
    security_protocol: str | None = None
    """PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL; default SASL_SSL where a user name is given, else PLAINTEXT."""
    sasl_mechanism: str | None = None
    """PLAIN, SCRAM-SHA-256, SCRAM-SHA-512; default PLAIN."""
    sasl_username: str | None = None
    """User name."""
    sasl_password: str | None = field(default=None, repr=False)
    """Password."""
    ssl_cafile: str | None = None
    """Certificates of the authorities to trust, PEM file; default the system's."""
    ssl_certfile: str | None = None
    """Own certificate, PEM file."""
    ssl_keyfile: str | None = field(default=None, repr=False)
    """Key of the own certificate, PEM file."""
    client_id: str | None = None
    """Name shown in the broker's logs; default spanfuse-guard."""

    def resolved(self) -> Connection:
        """With environment and defaults filled in.

        Raises:
            ValueError: for an unknown protocol or mechanism.
        """
        found = {
            k: v if v is not None else os.environ.get(f"SPANFUSE_KAFKA_{k.upper()}") for k, v in vars(self).items()
        }
        defaults = {
            "brokers": "127.0.0.1:9092",
            "security_protocol": "SASL_SSL" if found["sasl_username"] else "PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "client_id": "spanfuse-guard",
        }
        resolved = Connection(**{k: v or defaults.get(k) for k, v in found.items()})
        if resolved.security_protocol not in PROTOCOLS:
            raise ValueError(f"security_protocol is one of {', '.join(PROTOCOLS)}, not {resolved.security_protocol!r}")
        if resolved.sasl_mechanism not in MECHANISMS:
            raise ValueError(f"sasl_mechanism is one of {', '.join(MECHANISMS)}, not {resolved.sasl_mechanism!r}")
        return resolved

    def options(self) -> dict[str, Any]:
        """As aiokafka takes it. Reads the certificates anew each time, so that renewed ones are used."""
        protocol = str(self.security_protocol)
        found: dict[str, Any] = {
            "bootstrap_servers": str(self.brokers).split(","),
            "client_id": self.client_id,
            "security_protocol": protocol,
        }
        if protocol.endswith("SSL"):
            context = ssl.create_default_context(cafile=self.ssl_cafile)
            if self.ssl_certfile:
                context.load_cert_chain(self.ssl_certfile, self.ssl_keyfile)
            found["ssl_context"] = context
        if protocol.startswith("SASL"):
            found |= {
                "sasl_mechanism": self.sasl_mechanism,
                "sasl_plain_username": self.sasl_username,
                "sasl_plain_password": self.sasl_password,
            }
        return found


class ThreadLoop(asyncio.SelectorEventLoop):
    """The event loop of one of our daemon threads, whatever kind the process uses. Names of hosts are looked up in place: the
    threads by which asyncio does it hold up the end of the process, and are refused once it has begun."""

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:
        return socket.getaddrinfo(host, port, **options)


class KafkaSubscriber(ThreadSubscriber):
    """Reads the control topic from its beginning to its end, which is the present, and then follows it.

    It has an event loop and a consumer of its own in a daemon thread, and no consumer group: each process reads all. It
    never creates the topic; while that is missing, it tries again. Under gevent use `SseSubscriber`.

    Args:
        brokers: see `Connection`, as for the other settings.
        topic: the control topic.

    Raises:
        ValueError: for an unknown protocol or mechanism.
    """

    def __init__(
        self,
        brokers: str | None = None,
        *,
        topic: str = CONTROL,
        security_protocol: str | None = None,
        sasl_mechanism: str | None = None,
        sasl_username: str | None = None,
        sasl_password: str | None = None,
        ssl_cafile: str | None = None,
        ssl_certfile: str | None = None,
        ssl_keyfile: str | None = None,
        client_id: str | None = None,
    ) -> None:
        self.connection = Connection(
            brokers,
            security_protocol,
            sasl_mechanism,
            sasl_username,
            sasl_password,
            ssl_cafile,
            ssl_certfile,
            ssl_keyfile,
            client_id,
        ).resolved()
        self._topic = topic
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None = None
        super().__init__(f"kafka {self.connection.brokers}")

    def _follow(self, sink: Sink, stop: threading.Event) -> None:
        _said.last = ""
        try:
            with asyncio.Runner(loop_factory=ThreadLoop) as runner:
                runner.run(self._consume(sink, stop))
        except (
            Exception,
            asyncio.CancelledError,
        ) as error:  # Cancelled is no Exception: it would end the thread for good.
            raise ConnectionError(f"{error!r}; {_said.last}" if _said.last else repr(error)) from error

    def _interrupt(self) -> None:
        running = self._running
        if running is not None:
            with suppress(RuntimeError):  # The loop has just ended.
                running[0].call_soon_threadsafe(running[1].cancel)

    def _drop(self) -> None:
        self._running = None

    async def _consume(self, sink: Sink, stop: threading.Event) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._running = running = (asyncio.get_running_loop(), task)
        consumer = AIOKafkaConsumer(
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            request_timeout_ms=int(ANSWER_S * 1000),
            **self.connection.options(),
        )
        try:
            await asyncio.wait_for(consumer.start(), ANSWER_S * 2)
            await self._read(consumer, sink, stop)
        finally:
            if self._running is running:  # Else closing did not wait for this thread, and another has begun.
                self._running = None
            # aiokafka 0.14 lets the cancellation of its own fetchers out of stop() when the broker is away.
            with suppress(Exception, asyncio.CancelledError):
                await asyncio.wait_for(consumer.stop(), ANSWER_S)

    async def _read(self, consumer: AIOKafkaConsumer, sink: Sink, stop: threading.Event) -> None:
        partitions = await asyncio.wait_for(self._partitions(consumer), ANSWER_S)
        ends = await asyncio.wait_for(consumer.end_offsets(partitions), ANSWER_S)
        snapshot = self._snapshot()
        while not await _reached(consumer, ends):
            for record in await _some(consumer, ANSWER_S):
                self._take(record, snapshot)
        snapshot.hand_over(sink)
        self._caught_up()
        while not stop.is_set():
            records = await _some(consumer, HEARTBEAT_S)
            for record in records:
                self._take(record, sink)
            if not records:
                await _check_alive(consumer, partitions)
            sink.alive()

    async def _partitions(self, consumer: AIOKafkaConsumer) -> list[TopicPartition]:
        """Subscribe, without a group: to all partitions. Asking for the topic by name before it exists could make it."""
        if self._topic not in await consumer.topics():
            raise ConnectionError(f"there is no topic {self._topic}; make it with: spanfuse topics create")
        consumer.subscribe([self._topic])
        # aiokafka tells members of a group only. The sooner it is seen, the sooner all is known: what `_read` asks next waits
        # behind the first fetch, which the broker keeps for half a second where there is nothing.
        while not consumer.assignment():  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        return sorted(consumer.assignment())

    def _take(self, record: ConsumerRecord[bytes, bytes], sink: Sink | Snapshot) -> None:
        if not record.value:
            if record.key:
                sink.forget(record.key.decode("utf-8", "replace"))
            return
        if record.key == POLICY_KEY.encode():
            notice = self._notice(record.value)
            if notice is not None:
                sink.govern(notice)
            return
        decision = self._decision(record.value)
        if decision is not None:
            sink.apply(decision)


async def _some(consumer: AIOKafkaConsumer, timeout_s: float) -> list[ConsumerRecord[bytes, bytes]]:
    """The next records; none after `timeout_s` seconds without any."""
    found = await consumer.getmany(timeout_ms=int(timeout_s * 1000))
    return [record for records in found.values() for record in records]


async def _reached(consumer: AIOKafkaConsumer, ends: dict[TopicPartition, int]) -> bool:
    """Whether everything before these offsets was read."""
    for partition, end in ends.items():
        if await asyncio.wait_for(consumer.position(partition), ANSWER_S) < end:
            return False
    return True


async def _check_alive(consumer: AIOKafkaConsumer, partitions: list[TopicPartition]) -> None:
    """Ask the broker; raise if it does not answer, or if the topic was made anew."""
    ends = await asyncio.wait_for(consumer.end_offsets(partitions), ANSWER_S)
    for partition, end in ends.items():
        if await consumer.position(partition) > end:
            raise ConnectionError(f"the topic {partition.topic} starts anew")

"""Records to Kafka from a process that must not wait for it, with the extra `kafka`: an event loop and a producer of its own,
in a daemon thread. Used by threads that may wait (those that send spans and reports), never by the agent's."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
import weakref
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, TypeVar

from spanfuse.subscribers.kafka import Connection, ThreadLoop

try:
    from aiokafka import AIOKafkaProducer
except ImportError as error:  # pragma: no cover  Proven in an interpreter without it.
    raise ImportError("spans and reports to Kafka need the extra kafka: pip install 'spanfuse[kafka]'") from error

T = TypeVar("T")
Message = tuple[bytes | None, bytes]
"""Key and value."""

MAX_MESSAGE_BYTES: Final = 15 * 1024 * 1024
"""Largest message; below the topics' `max.message.bytes`, which counts the batch's header too."""
ANSWER_S: Final = 4.0
"""How long the broker may take to answer, seconds; less than an export may take, so that what is lost is known to be."""

log = logging.getLogger("spanfuse")


class KafkaSender:
    """Writes messages, and says which have arrived. A forked child connects by itself with its first message.

    Args:
        brokers: `host:port`, several with commas; security as in `spanfuse.subscribers.kafka.Connection`.

    Raises:
        ValueError: for an unknown protocol or mechanism.
    """

    def __init__(self, brokers: str | None = None) -> None:
        self._connection = Connection(brokers, client_id="spanfuse-agent").resolved()
        self.trouble = ""
        """Why the last messages did not arrive; empty: they did."""
        self._begin()
        if hasattr(os, "register_at_fork"):
            begin = weakref.WeakMethod(self._begin)
            os.register_at_fork(after_in_child=lambda: (anew := begin()) and anew())

    def _begin(self) -> None:
        """Thread, loop and sockets of a forked process are its parent's: nothing of them may be touched."""
        self._lock = threading.RLock()
        self._loop: ThreadLoop | None = None
        self._thread: threading.Thread | None = None
        self._producer: AIOKafkaProducer | None = None
        self._connecting: asyncio.Lock | None = None

    def connect(self) -> None:
        """Connect now, in the background, rather than with the first message."""
        with suppress(Exception):
            future = self._submit(self._connected())
            future.add_done_callback(lambda done: done.cancelled() or done.exception())

    def send(self, topic: str, messages: Sequence[Message], timeout_s: float) -> list[bool]:
        """Write messages, those with one key to one partition.

        Args:
            topic: has to exist; it is never made.
            timeout_s: longest time that this may take, seconds.

        Returns:
            For each message whether the broker has it.
        """
        future: Future[list[BaseException | None]] | None = None
        try:
            future = self._submit(self._sent(topic, messages))
            found = future.result(timeout_s)
        except Exception as error:  # whatever it is: no thread can be started any more, nobody answers, …
            if future is not None:
                future.cancel()
            found = [error] * len(messages)
        self._tell(topic, next((error for error in found if error is not None), None))
        return [error is None for error in found]

    def _tell(self, topic: str, error: BaseException | None) -> None:
        """One line for each outage, not for each attempt."""
        trouble = "" if error is None else str(error) or type(error).__name__
        if trouble and not self.trouble:
            log.warning("Kafka %s: what is written to %s is lost: %s", self._connection.brokers, topic, trouble)
        elif self.trouble and not trouble:
            log.info("Kafka %s: what is written to %s arrives again", self._connection.brokers, topic)
        self.trouble = trouble

    def close(self, timeout_s: float = 1.0) -> None:
        """Disconnect, and end the thread, within `timeout_s` seconds; a later message connects anew."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        deadline = time.monotonic() + timeout_s
        with suppress(Exception):
            asyncio.run_coroutine_threadsafe(self._stopped(), loop).result(timeout_s)
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(loop.stop)
        thread.join(max(0.05, deadline - time.monotonic()))

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        try:
            with self._lock:
                return asyncio.run_coroutine_threadsafe(work, self._running())
        except BaseException:
            work.close()
            raise

    def _running(self) -> ThreadLoop:
        if self._loop is None:
            loop = ThreadLoop()
            self._thread = threading.Thread(target=_run, args=(loop,), name="spanfuse-kafka-sender", daemon=True)
            self._thread.start()
            self._loop, self._producer, self._connecting = loop, None, asyncio.Lock()
        return self._loop

    async def _sent(self, topic: str, messages: Sequence[Message]) -> list[BaseException | None]:
        producer = await self._connected()
        if topic not in producer.client.cluster.topics():
            await self._look_for(topic, producer)
        found = await asyncio.gather(*(_arrives(producer, topic, one) for one in messages), return_exceptions=True)
        return [one if isinstance(one, BaseException) else None for one in found]

    async def _look_for(self, topic: str, producer: AIOKafkaProducer) -> None:
        """Asking for a topic by name before it exists could make it."""
        known = await asyncio.wait_for(producer.client.fetch_all_metadata(), ANSWER_S)
        if topic not in known.topics():
            raise ConnectionError(f"there is no topic {topic}; make it with: spanfuse topics create")

    async def _connected(self) -> AIOKafkaProducer:
        assert self._connecting is not None
        async with self._connecting:
            if self._producer is None:
                self._producer = await self._new_producer()
            return self._producer

    async def _new_producer(self) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(
            acks=1,
            max_request_size=MAX_MESSAGE_BYTES + 1024,
            request_timeout_ms=int(ANSWER_S * 1000),
            **self._connection.options(),
        )
        try:
            await asyncio.wait_for(producer.start(), ANSWER_S)
        except BaseException:
            with suppress(Exception, asyncio.CancelledError):
                await producer.stop()
            raise
        return producer

    async def _stopped(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.stop()


async def _arrives(producer: AIOKafkaProducer, topic: str, message: Message) -> None:
    """Write a message; returns once the broker has it."""
    key, value = message
    await (await producer.send(topic, value, key=key))


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        with suppress(Exception):
            loop.run_until_complete(asyncio.sleep(0))
        loop.close()

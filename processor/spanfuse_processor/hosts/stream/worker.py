"""`spanfuse worker`: one process of the fleet, until a signal or a reason to end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aiokafka import TopicPartition

from spanfuse_processor.config.telemetry import WORKER_ENDPOINT
from spanfuse_processor.errors import ConfigError
from spanfuse_processor.exporters.readmodel.redis_link import RedisLink
from spanfuse_processor.hosts.collector import spare_the_collector
from spanfuse_processor.hosts.ledger import LedgerLink
from spanfuse_processor.hosts.ledger_watch import Booked, LedgerWatch, Rows, looked_up
from spanfuse_processor.hosts.overlaid import PolicyOrder, order_of, overlaid
from spanfuse_processor.hosts.policy_topic import FOLLOWED
from spanfuse_processor.hosts.reading import normaliser_of, prices_of
from spanfuse_processor.hosts.recorder import Recorder
from spanfuse_processor.hosts.reload import on_hangup
from spanfuse_processor.hosts.stream.app import member_of
from spanfuse_processor.hosts.stream.connection import mend
from spanfuse_processor.hosts.stream.feed import Feed
from spanfuse_processor.hosts.stream.host import StreamHost
from spanfuse_processor.hosts.stream.observed import observe
from spanfuse_processor.hosts.stream.progress import STUCK_S
from spanfuse_processor.hosts.stream.pulse import LEAVE_S, Pulse, leave_within
from spanfuse_processor.hosts.stream.receiver import KafkaReceiver
from spanfuse_processor.hosts.stream.watchdog import Standing, Watchdog
from spanfuse_processor.hosts.topic_tail import Tail
from spanfuse_processor.telemetry.logs import say
from spanfuse_processor.telemetry.running import Telemetry
from spanfuse_schemas.topics import CALLS, CHARGES, OTLP_LOGS, OTLP_SPANS

if TYPE_CHECKING:
    from spanfuse_processor.config import Config

log = logging.getLogger(__name__)

COUNTS_INTERVAL_S: Final = 60.0
"""How often a worker says what it has counted, if that has changed, seconds."""
MAX_UNKNOWN_MODELS: Final = 20
"""Unknown models that the read model is told, those with most calls."""
RECEIVER_GRACE_S: Final = 1.0
"""How long the receiver's answers may take when the worker stops, seconds."""
NOISY: Final = ("faust", "mode", "aiokafka")
"""Libraries that tell of their inner life at INFO, and of outages that they get over at ERROR."""


class Worker:
    """The stream host with its receiver and its watchdogs.

    Args:
        config: needs `receivers.kafka`; with `receivers.otlp` it takes OTLP as well.
        stuck_s: time without progress after which it ends, seconds.

    Raises:
        ConfigError: without `receivers.kafka`.
    """

    def __init__(self, config: Config, *, stuck_s: float = STUCK_S) -> None:
        kafka = config.receivers.kafka
        if kafka is None:
            raise ConfigError(["receivers.kafka: a worker needs it; write `kafka: {brokers: HOST:PORT}`"])
        self.prices = prices_of(config.pricing)
        normaliser = normaliser_of(config, self.prices)
        readmodel = config.extensions.readmodel
        self.feed: Feed | None = None
        if readmodel is not None:
            link = RedisLink(readmodel.address.get_secret_value(), kafka.partitions)
            self.feed = Feed(link, config.service.idle_timeout_s, self._of_itself)
        self.telemetry = Telemetry(
            config.service.telemetry, "worker", self, partial(observe, self), default_endpoint=WORKER_ENDPOINT
        )
        recorder = Recorder(self.telemetry.tallies, self.telemetry.traces)
        self.host = StreamHost(kafka, config.policy(), normaliser, config.service.keys(), self.feed, recorder)
        self._file = config
        self._policy_order: PolicyOrder | None = None
        self._govern_soon: asyncio.Future[None] | None = None
        self._orders = Tail(kafka, FOLLOWED, self._ordered)
        otlp = config.receivers.otlp
        self.receiver = KafkaReceiver(kafka, otlp, self.host.counters) if otlp is not None else None
        ledger = config.extensions.ledger
        self.ledger: LedgerWatch | None = None
        if ledger is not None:
            books = LedgerLink(config)
            self.ledger = LedgerWatch(books, self._compared, ledger.compare_interval_s, self._tell_now)
        self.watchdog = Watchdog(kafka, self._standing, stuck_s=stuck_s)
        self._pulse = Pulse(stuck_s)
        self._counts = Counts()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start everything; `host.ready` is set when partitions are assigned and recovered. How it is can be asked from the
        beginning on."""
        await self.telemetry.start()
        await self.host.start(self._laid_over)
        await self.host.publish()
        if self.receiver is not None:
            await self.receiver.start()
        works = [self._watch(), self._pulse.run(), self._tell_counts(), self._orders.run()]
        if self.feed is not None:
            works.append(self.feed.run())
        if self.ledger is not None:
            works.append(self.ledger.run())
        self._tasks = [asyncio.create_task(work) for work in works]

    @property
    def ready(self) -> bool:
        """Its partitions are assigned and recovered."""
        return self.host.ready.is_set()

    @property
    def live(self) -> bool:
        """It makes progress on all that waits for it, as far as Kafka tells."""
        return not (self.host.failed.done() or any(task.done() for task in self._tasks)) and self.watchdog.moving

    @property
    def mode(self) -> str:
        """`observe` or `enforce`."""
        return self.host.policy.policy.mode

    async def govern(self, config: Config) -> None:
        """Make the rules, budgets and mode of another configuration those in force, with what is laid over it still."""
        self._file = config
        await self._govern()

    async def _laid_over(self) -> None:
        """Begin with what was laid over the configuration."""
        await self._orders.catch_up()
        policy = overlaid(self._file, self._policy_order).policy()
        self.host.adopt(policy)
        if self.ledger is not None:
            self.ledger.link.follow(policy)

    def _ordered(self, record: Any) -> None:
        """A record of the policy topic."""
        order = order_of(record.value)
        if order is None:
            return
        self._policy_order = order
        if self._tasks:
            who, what = order.actor or "an operator", ", ".join(order.overlay) or "nothing"
            log.warning("%s has laid over the configuration: %s", who, what)
            self._govern_soon = asyncio.ensure_future(self._govern())

    async def _govern(self) -> None:
        policy = overlaid(self._file, self._policy_order).policy()
        await self.host.govern(policy)
        if self.ledger is not None:
            await self.ledger.follow(policy)

    async def stop(self) -> None:
        """Stop everything, within 10 s, whatever has started."""
        for task in self._tasks:
            task.cancel()
        stops: list[Awaitable[None]] = [self.host.stop(), self.telemetry.stop(), *self._tasks]
        if self.receiver is not None:
            stops.append(self.receiver.stop(RECEIVER_GRACE_S))
        await asyncio.gather(*stops, return_exceptions=True)
        if self._tasks:
            self._tell_now()
        if self.ledger is not None:
            self.ledger.close()
        if self.feed is not None:
            await self.feed.close()

    def _of_itself(self) -> dict[str, Any]:
        """What the read model is told of this worker."""
        partitions = sorted(tp.partition for tp in self.host.assigned() if tp.topic == CALLS)
        return {
            "worker": f"{socket.gethostname()}:{os.getpid()}",
            "at_ns": time.time_ns(),
            "ready": self.host.ready.is_set(),
            "partitions": partitions,
            "policy_epoch": self.host.policy.epoch,
            "mode": self.host.policy.policy.mode,
            "counts": self.counts(),
            "unknown_models": dict(Counter(dict(self.prices.unknown_models)).most_common(MAX_UNKNOWN_MODELS)),
        }

    def counts(self) -> dict[str, Any]:
        ledger = self.ledger.counts() if self.ledger is not None else {}
        return {**self.host.counts(), **ledger}

    async def _compared(self, booked: Booked) -> tuple[Booked, Rows]:
        """Of the ledger's accounts, those of the partitions that are this worker's."""
        assert self.ledger is not None
        found = await looked_up((*self.ledger.link.named, *booked), self.host.accounts)
        return {scope: booked.get(scope, {}) for scope in found}, [row for rows in found.values() for row in rows]

    async def _watch(self) -> None:
        try:
            await self.watchdog.run()
        except Exception as error:
            self.host.fail(error)

    async def _tell_counts(self) -> None:
        while True:
            await asyncio.sleep(COUNTS_INTERVAL_S)
            self._tell_now()

    def _tell_now(self) -> None:
        self._counts.tell(self.counts())

    def _standing(self) -> Standing:
        host = self.host
        sources = {
            TopicPartition(tp.topic, tp.partition)
            for tp in host.assigned()
            if tp.topic in (CALLS, CHARGES, OTLP_LOGS, OTLP_SPANS)
        }
        return Standing(host.ready.is_set(), member_of(host.app), sources, host.recovering())


class Counts:
    """Says what a worker has counted: one line of JSON on stderr, without what is 0."""

    def __init__(self) -> None:
        self._told = ""

    def tell(self, counts: Mapping[str, Any]) -> None:
        """Say it, unless nothing has changed since the last time."""
        line = json.dumps({name: found for name, found in counts.items() if found}, separators=(",", ":"))
        if line != self._told:
            self._told = line
            say(f"spanfuse worker counts {line}")


async def serve(
    config: Config,
    *,
    path: Path | None = None,
    ready: Callable[[Worker], None] | None = None,
    stuck_s: float = STUCK_S,
) -> None:
    """Run a worker until SIGTERM or SIGINT; on SIGHUP read the configuration file again.

    Args:
        path: the configuration file; None: there is none.
        ready: called once it has partitions, recovered.

    Raises:
        SpanfuseError: when it has to end for another reason.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    worker = Worker(config, stuck_s=stuck_s)
    try:
        await worker.start()
        await _first(worker.host.ready.wait(), stop.wait(), worker.host.failed)
        if worker.host.ready.is_set():
            on_hangup(path, config, worker.govern)
            spare_the_collector()
            if ready is not None:
                ready(worker)
        await _first(stop.wait(), worker.host.failed)
    finally:
        await worker.stop()
    if worker.host.failed.done():
        worker.host.failed.result()


async def _first(*works: object) -> None:
    tasks = [asyncio.ensure_future(work) for work in works]  # type: ignore[call-overload]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for work, task in zip(works, tasks, strict=True):
        if task is not work:
            task.cancel()


def run_worker(config: Config, *, path: Path | None = None, ready: Callable[[Worker], None] | None = None) -> None:
    """`serve` in an event loop of its own, on uvloop where it is installed."""
    for name in NOISY:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with contextlib.suppress(ImportError):
        import uvloop

        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    threading.excepthook = _thread_failed
    mend()
    with asyncio.Runner() as runner:
        try:
            runner.run(serve(config, path=path, ready=ready or _tell))
        finally:
            leave_within(LEAVE_S, sys.exception())


def _thread_failed(failure: threading.ExceptHookArgs) -> None:
    """The engine's thread, stopped while Kafka is away, ends with a traceback that tells nothing."""
    if not issubclass(failure.exc_type, asyncio.CancelledError):
        threading.__excepthook__(failure)


def _tell(worker: Worker) -> None:
    host, receiver = worker.host, worker.receiver
    partitions = sorted(tp.partition for tp in host.assigned() if tp.topic == CALLS)
    line = (
        f"spanfuse worker is up: Kafka {host.settings.brokers} · partitions {','.join(map(str, partitions)) or 'none'}"
    )
    if receiver is not None:
        line += f" · OTLP/HTTP port {receiver.otlp.http_port} · OTLP/gRPC port {receiver.otlp.grpc_port}"
    if worker.telemetry.port:
        line += f" · metrics port {worker.telemetry.port}"
    say(line)

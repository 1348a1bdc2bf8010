"""The embedded host: OTLP in, decisions out, everything in one process, state in one SQLite file.

It needs no services: `spanfuse up` on a laptop, in CI, or for a small team.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

from spanfuse_processor.api.access import Access
from spanfuse_processor.api.app import create_app
from spanfuse_processor.api.console import OverlayNotice
from spanfuse_processor.config import Config
from spanfuse_processor.config.overlay import Overlay
from spanfuse_processor.errors import ConfigError, UnavailableError
from spanfuse_processor.exporters.hub import Hub
from spanfuse_processor.hosts.collector import spare_the_collector
from spanfuse_processor.hosts.console import EmbeddedConsole
from spanfuse_processor.hosts.embedded_observed import observe
from spanfuse_processor.hosts.engine import Engine
from spanfuse_processor.hosts.ledger import LedgerLink
from spanfuse_processor.hosts.ledger_watch import Booked, LedgerWatch, Rows, looked_up
from spanfuse_processor.hosts.outgoing import Outgoing
from spanfuse_processor.hosts.overlaid import PolicyOrder, order_of, overlaid
from spanfuse_processor.hosts.recorder import Recorder
from spanfuse_processor.hosts.reload import notice_of, on_hangup
from spanfuse_processor.hosts.store import Store
from spanfuse_processor.hosts.upkeep import AT_ONCE
from spanfuse_processor.otlp.decode import Encoding
from spanfuse_processor.otlp.export import ExportResult, Exports
from spanfuse_processor.otlp.receiver import OtlpReceiver
from spanfuse_processor.page.routes import PAGE
from spanfuse_processor.serving import HttpServer
from spanfuse_processor.telemetry.running import Telemetry
from spanfuse_schemas import PolicyNotice

log = logging.getLogger(__name__)

RECEIVER_GRACE_S: Final = 3.0
"""How long requests under way may take when the host stops, seconds. With the rest it stays below 10 s."""
API_GRACE_S: Final = 1.0
"""How long the API's answers may take when the host stops, seconds."""
CHECKPOINT_INTERVAL_S: Final = 1.0
EXPIRY_INTERVAL_S: Final = 10.0
TOLD_INTERVAL_S: Final = 1.0
"""How often those who watch are told which sessions have changed, seconds."""
MAX_TOLD: Final = 1_000
"""Sessions that are named then; of more, that there are."""
TICK_INTERVAL_S: Final = 1.0
"""How often it is looked for budgets whose period is over, seconds; Guards know it by themselves."""


class EmbeddedHost:
    """The host, for the running event loop.

    Args:
        config: what to listen on, the rules, where the state is kept.
    """

    def __init__(self, config: Config) -> None:
        self.file = self.config = config
        """What the configuration file says, and what is in force."""
        self._policy_order: PolicyOrder | None = None
        self.console = EmbeddedConsole(self)
        self.hub = Hub(keys=config.service.keys())
        """Has those who listen as Guards do."""
        self._tasks: list[asyncio.Task[None]] = []
        self._engine: Engine | None = None
        self._receiver: OtlpReceiver | None = None
        self._api: HttpServer | None = None
        self.outgoing: Outgoing | None = None
        """What it tells people and backends; none: it does not run."""
        self._telemetry: Telemetry | None = None
        ledger = config.extensions.ledger
        self.ledger = LedgerWatch(LedgerLink(config), self._compared, ledger.compare_interval_s) if ledger else None
        """The books of strict budgets; none: there are none."""
        self.started = 0.0
        """When it began, by the monotonic clock, seconds."""
        self.policy = notice_of(config.policy())
        """The policy in force, as Guards are told it."""
        self.ready = False
        """Spans are taken."""
        self.api_port = 0
        """Port of the API once started."""

    @property
    def http_port(self) -> int:
        """Port of OTLP/HTTP once started; 0: not served."""
        return self._receiver.http_port if self._receiver else 0

    @property
    def grpc_port(self) -> int:
        """Port of OTLP/gRPC once started; 0: not served."""
        return self._receiver.grpc_port if self._receiver else 0

    async def start(self) -> None:
        """Restore the state, and listen.

        Raises:
            SpanfuseError: in one line: the file cannot be used, or an address cannot be bound; nothing is left open.
        """
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        otlp = self.config.receivers.otlp
        if otlp is None:
            raise ConfigError(["receivers.otlp: missing; this host takes spans over OTLP"])
        self.started = time.monotonic()
        store = Store(self.config.extensions.storage.path)
        try:
            self._policy_order = order_of(store.policy_order())
            self.config = overlaid(self.file, self._policy_order)
            self.policy = notice_of(self.config.policy(), self.policy)
            self._telemetry = Telemetry(self.config.service.telemetry, "embedded", self, partial(observe, self))
            recorder = Recorder(self._telemetry.tallies, self._telemetry.traces)
            self._engine = Engine(self.config, store, self.hub, recorder)
        except BaseException:
            store.close()
            raise
        self._engine.work.board.govern(self.policy)
        api = self.config.extensions.api
        host, _, port = api.endpoint.rpartition(":")
        self.outgoing = Outgoing(self.config.exporters, self.console, store.alerts)
        app = create_app(
            self.console, access=Access(api), alerts=self.outgoing.alerts, more=PAGE, telemetry=self._telemetry
        )
        self._api = HttpServer("the API", app, host.strip("[]"), int(port))
        self.api_port = await self._api.start()
        exports: Exports = {"traces": self._spans, "logs": self._logs, "metrics": self._metrics}
        self._receiver = OtlpReceiver(otlp, exports)
        await self._receiver.start()
        work: list[tuple[float, Callable[[], Coroutine[Any, Any, None]]]] = [
            (CHECKPOINT_INTERVAL_S, self._checkpoint),
            (EXPIRY_INTERVAL_S, self._expire),
            (TICK_INTERVAL_S, self._tick),
            (TOLD_INTERVAL_S, self._tell_changed),
        ]
        self._tasks = [
            asyncio.create_task(every(interval_s, each), name=f"embedded-{each.__name__}") for interval_s, each in work
        ]
        if self.ledger is not None:
            await self.ledger.follow(self.config.policy())
            self._tasks.append(asyncio.create_task(self.ledger.run(), name="embedded-ledger"))
        await self.outgoing.start()
        await self._telemetry.start()
        self.ready = True

    async def govern(self, config: Config) -> None:
        """Make the rules, budgets and mode of another configuration those in force, with what is laid over it still.

        Raises:
            UnavailableError: the storage failed; they are in force, but not all that stands was looked at.
        """
        self.file, before = config, self._policy_order is not None and self._policy_order.holds(self.file)
        if before and self._policy_order is not None and not self._policy_order.holds(config):
            log.warning("the configuration file has changed: what an operator had laid over it holds no longer")
        await self._govern(overlaid(config, self._policy_order))

    async def lay_over(self, overlay: Overlay, actor: str, reason: str) -> PolicyNotice:
        """Lay sections over the configuration file, until what it says changes; none: take them away.

        Raises:
            UnavailableError: the storage failed; nothing is changed, or not all that stands was looked at.
        """
        order = PolicyOrder.of(overlay, self.file, actor, reason, time.time_ns())
        config = overlaid(self.file, order)
        self.engine.work.store.keep_policy_order(order.to_json())
        self._policy_order = order
        log.warning(
            "%s has laid over the configuration: %s", actor or "an operator", ", ".join(order.overlay) or "nothing"
        )
        await self._govern(config)
        return self.policy

    def overlay(self) -> OverlayNotice | None:
        """What was laid over the configuration file last."""
        return self._policy_order.notice(self.file) if self._policy_order is not None else None

    async def _govern(self, config: Config) -> None:
        self.config, policy = config, config.policy()
        self.policy = notice_of(policy, self.policy)
        self.engine.work.board.govern(self.policy)
        if self.ledger is not None:
            await self.ledger.follow(policy)
        self.engine.upkeep.follow(policy)

    async def stop(self) -> None:
        """Answer what is under way, take nothing more, close; within 10 s. What was answered is stored already."""
        self.ready = False
        if self._receiver is not None:
            await self._receiver.stop(RECEIVER_GRACE_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        if self.outgoing is not None:
            await self.outgoing.stop()
        if self._telemetry is not None:
            await self._telemetry.stop()
        self.hub.close()
        if self._engine is not None:
            self._engine.work.events.hub.close()
        if self._api is not None:
            await self._api.stop(API_GRACE_S)
        if self._engine is not None:
            self._engine.work.store.close()
            self._engine = None
        if self.ledger is not None:
            self.ledger.close()

    async def _spans(self, data: bytes, encoding: Encoding) -> ExportResult:
        return await self.engine.ingest(data, encoding, time.time_ns())

    async def _logs(self, data: bytes, encoding: Encoding) -> ExportResult:
        return await self.engine.ingest(data, encoding, time.time_ns(), "logs")

    async def _metrics(self, _: bytes, __: Encoding) -> ExportResult:
        self.engine.work.counters.add({"dropped_metrics": 1})
        return ExportResult()

    async def _checkpoint(self) -> None:
        await asyncio.to_thread(self.engine.work.store.checkpoint)

    async def _expire(self) -> None:
        while True:
            if self.engine.upkeep.expire(time.time_ns()) < AT_ONCE:
                return
            await asyncio.sleep(0)

    async def _compared(self, booked: Booked) -> tuple[Booked, Rows]:
        """All of the ledger's accounts, and all that the spans tell: scopes that only the ledger knows lately are looked up."""
        views, now_ns = self.engine.views, time.time_ns()
        rows = await views.budgets(now_ns)
        known = {row["scope"] for row in rows}
        found = await looked_up((scope for scope in booked if scope not in known), lambda s: views.accounts(s, now_ns))
        return booked, [*rows, *(row for more in found.values() for row in more)]

    async def _tell_changed(self) -> None:
        changed = self.engine.work.changed
        if changed:
            told = {"changed": list(islice(changed, MAX_TOLD)), "more": len(changed) > MAX_TOLD}
            self.engine.work.changed = set()
            self.engine.work.events.publish("sessions", json.dumps(told).encode())

    async def _tick(self) -> None:
        self.engine.upkeep.tick(time.time_ns())

    @property
    def live(self) -> bool:
        """Whether all that it does from time to time goes on."""
        return not any(task.done() for task in self._tasks) and (self.outgoing is None or self.outgoing.live)

    @property
    def mode(self) -> str:
        """`observe` or `enforce`."""
        return self.config.service.mode

    def exporting(self) -> dict[str, Any]:
        """What became of what was to be told elsewhere."""
        return self.outgoing.status() if self.outgoing is not None else {}

    @property
    def engine(self) -> Engine:
        """The core with its state.

        Raises:
            UnavailableError: the host does not run.
        """
        if self._engine is None:
            raise UnavailableError("the host does not run")
        return self._engine


async def every(interval_s: float, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Do it again and again; what fails is told once, and tried again."""
    told = False
    while True:
        await asyncio.sleep(interval_s)
        try:
            await work()
        except Exception as error:  # whatever is the matter with one turn, the next is taken
            if not told:
                log.warning("%s", error, exc_info=not isinstance(error, UnavailableError))
            told = True


async def run_embedded(
    config: Config, *, path: Path | None = None, ready: Callable[[EmbeddedHost], None] | None = None
) -> None:
    """Run until SIGTERM or SIGINT; on SIGHUP read the configuration file again.

    Args:
        path: the configuration file; None: there is none.
        ready: called once spans are taken.

    Raises:
        SpanfuseError: in one line: the host cannot start.
    """
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError):  # a loop that has no signals, as on Windows
            loop.add_signal_handler(number, stopped.set)
    host = EmbeddedHost(config)
    await host.start()
    spare_the_collector()
    try:
        on_hangup(path, config, host.govern)
        if ready is not None:
            ready(host)
        await stopped.wait()
    finally:
        await host.stop()

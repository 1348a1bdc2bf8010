"""The embedded host: OTLP in, decisions out, everything in one process, state in one SQLite file.

It needs no services: `spanfuse up` on a laptop, in CI, or for a small team.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any, Final

from spanfuse_processor.api.access import Access
from spanfuse_processor.api.app import create_app
from spanfuse_processor.api.console import OverlayNotice
from spanfuse_processor.config import Config
from spanfuse_processor.config.overlay import Overlay
from spanfuse_processor.core.budgets import Ordered
from spanfuse_processor.errors import ConfigError, SpanfuseError, UnavailableError
from spanfuse_processor.exporters.hub import Hub, Listener
from spanfuse_processor.hosts.collector import spare_the_collector
from spanfuse_processor.hosts.console import EmbeddedConsole
from spanfuse_processor.hosts.engine import Engine
from spanfuse_processor.hosts.ledger import LedgerLink
from spanfuse_processor.hosts.ledger_watch import Booked, LedgerWatch, Rows, looked_up
from spanfuse_processor.hosts.overlaid import PolicyOrder, order_of, overlaid
from spanfuse_processor.hosts.reload import notice_of, on_hangup
from spanfuse_processor.hosts.store import Store
from spanfuse_processor.hosts.upkeep import AT_ONCE
from spanfuse_processor.hosts.views import Views
from spanfuse_processor.hosts.workspace import Workspace
from spanfuse_processor.otlp.decode import Encoding
from spanfuse_processor.otlp.export import ExportResult, Exports
from spanfuse_processor.otlp.receiver import OtlpReceiver
from spanfuse_processor.page.routes import PAGE
from spanfuse_processor.serving import HttpServer
from spanfuse_schemas import BudgetOrder, Decision, PolicyNotice

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
MAX_UNKNOWN_MODELS: Final = 20
"""Unknown models named in the status, those with most calls first."""


class EmbeddedHost:
    """The host, for the running event loop.

    Args:
        config: what to listen on, the rules, where the state is kept.
    """

    def __init__(self, config: Config) -> None:
        self.file = self._config = config
        """What the configuration file says."""
        self._policy_order: PolicyOrder | None = None
        self.console = EmbeddedConsole(self)
        self._hub = Hub(keys=config.service.keys())
        self._tasks: list[asyncio.Task[None]] = []
        self._engine: Engine | None = None
        self._receiver: OtlpReceiver | None = None
        self._api: HttpServer | None = None
        ledger = config.extensions.ledger
        self._ledger = LedgerWatch(LedgerLink(config), self._compared, ledger.compare_interval_s) if ledger else None
        self._started = 0.0
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
        otlp = self._config.receivers.otlp
        if otlp is None:
            raise ConfigError(["receivers.otlp: missing; this host takes spans over OTLP"])
        self._started = time.monotonic()
        store = Store(self._config.extensions.storage.path)
        try:
            self._policy_order = order_of(store.policy_order())
            self._config = overlaid(self.file, self._policy_order)
            self.policy = notice_of(self._config.policy(), self.policy)
            self._engine = Engine(self._config, store, self._hub)
        except BaseException:
            store.close()
            raise
        self._engine.work.board.govern(self.policy)
        api = self._config.extensions.api
        host, _, port = api.endpoint.rpartition(":")
        self._api = HttpServer(
            "the API", create_app(self.console, access=Access(api), more=PAGE), host.strip("[]"), int(port)
        )
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
        if self._ledger is not None:
            await self._ledger.follow(self._config.policy())
            self._tasks.append(asyncio.create_task(self._ledger.run(), name="embedded-ledger"))
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
        self.work.store.keep_policy_order(order.to_json())
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
        self._config, policy = config, config.policy()
        self.policy = notice_of(policy, self.policy)
        self._running.work.board.govern(self.policy)
        if self._ledger is not None:
            await self._ledger.follow(policy)
        self._running.upkeep.follow(policy)

    async def stop(self) -> None:
        """Answer what is under way, take nothing more, close; within 10 s. What was answered is stored already."""
        self.ready = False
        if self._receiver is not None:
            await self._receiver.stop(RECEIVER_GRACE_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        self._hub.close()
        if self._engine is not None:
            self._engine.work.events.hub.close()
        if self._api is not None:
            await self._api.stop(API_GRACE_S)
        if self._engine is not None:
            self._engine.work.store.close()
            self._engine = None
        if self._ledger is not None:
            self._ledger.close()

    async def _spans(self, data: bytes, encoding: Encoding) -> ExportResult:
        return await self._running.ingest(data, encoding, time.time_ns())

    async def _logs(self, data: bytes, encoding: Encoding) -> ExportResult:
        return await self._running.ingest(data, encoding, time.time_ns(), "logs")

    async def _metrics(self, _: bytes, __: Encoding) -> ExportResult:
        self._running.work.counters.add({"dropped_metrics": 1})
        return ExportResult()

    async def _checkpoint(self) -> None:
        await asyncio.to_thread(self._running.work.store.checkpoint)

    async def _expire(self) -> None:
        while True:
            if self._running.upkeep.expire(time.time_ns()) < AT_ONCE:
                return
            await asyncio.sleep(0)

    async def _compared(self, booked: Booked) -> tuple[Booked, Rows]:
        """All of the ledger's accounts, and all that the spans tell: scopes that only the ledger knows lately are looked up."""
        views, now_ns = self._running.views, time.time_ns()
        rows = await views.budgets(now_ns)
        known = {row["scope"] for row in rows}
        found = await looked_up((scope for scope in booked if scope not in known), lambda s: views.accounts(s, now_ns))
        return booked, [*rows, *(row for more in found.values() for row in more)]

    async def _tell_changed(self) -> None:
        changed = self.work.changed
        if changed:
            told = {"changed": list(islice(changed, MAX_TOLD)), "more": len(changed) > MAX_TOLD}
            self.work.changed = set()
            self.work.events.publish("sessions", json.dumps(told).encode())

    async def _tick(self) -> None:
        self._running.upkeep.tick(time.time_ns())

    @property
    def live(self) -> bool:
        """Whether all that it does from time to time goes on."""
        return not any(task.done() for task in self._tasks)

    @property
    def work(self) -> Workspace:
        """The state."""
        return self._running.work

    @property
    def views(self) -> Views:
        """What people are shown of the state."""
        return self._running.views

    @property
    def _running(self) -> Engine:
        if self._engine is None:
            raise UnavailableError("the host does not run")
        return self._engine

    def decisions(self) -> list[Decision]:
        """What stands at present; what is open and has expired as half-open."""
        return self._running.work.board.shown(time.time_ns())

    def follow(self) -> tuple[Iterable[bytes], Listener]:
        """What stands at present as events, and a listener for what changes from now on."""
        return self._running.work.board.follow()

    def session(self, session: str) -> dict[str, Any] | None:
        """What is known of a session."""
        return self._running.views.describe(session, time.time_ns())

    def detections(self, limit: int) -> list[bytes]:
        """The last detections, newest first, as JSON."""
        return self._running.work.store.detections(limit)

    def reset(self, key: str, actor: str) -> Decision | None:
        """Close a breaker; none if nothing is known of the key."""
        return self._running.operator.reset(key, actor, time.time_ns())

    async def order(self, order: BudgetOrder) -> Ordered:
        """Do what an operator has ordered about a budget, here and in the ledger, which goes first: it can be away. It is of
        now, whatever the operator's clock says, so that both find it in the same period."""
        order = order.model_copy(update={"at_ns": time.time_ns()})
        if self._ledger is not None:
            await asyncio.to_thread(self._ledger.link.order, order)
        return self._running.operator.order(order)

    async def budgets(self, scope: str = "") -> list[dict[str, Any]]:
        """The accounts of one scope, or of all, in the periods that run; with what is held, where the ledger knows."""
        now_ns = time.time_ns()
        rows = self._running.views.accounts(scope, now_ns) if scope else await self._running.views.budgets(now_ns)
        return await asyncio.to_thread(self._ledger.link.with_holds, rows) if self._ledger is not None else rows

    def audit(self, limit: int) -> list[bytes]:
        """What became of operators' last orders about budgets, newest first, as JSON."""
        return self._running.work.store.audit(limit)

    async def rebuild(self) -> int:
        """Set the ledger's books to what the spans tell; how many accounts."""
        if self._ledger is None:
            raise SpanfuseError("extensions.ledger is not set")
        return await asyncio.to_thread(self._ledger.link.rebuild, await self._running.views.budgets(time.time_ns()))

    async def agents(self) -> list[dict[str, Any]]:
        """What each agent came to, with the limits recommended for its sessions."""
        return await self._running.views.agents()

    async def models(self) -> list[dict[str, Any]]:
        """What each model came to."""
        return await self._running.views.models()

    def status(self) -> dict[str, Any]:
        """Version, mode, ports and counts."""
        engine = self._running
        breakers = engine.work.board.breakers(time.time_ns())
        here = {"untold_decisions": engine.work.board.untold, "dropped_streams": self._hub.dropped}
        return {
            "version": version("spanfuse"),
            "mode": self._config.service.mode,
            "policy_epoch": self.policy.epoch,
            "uptime_s": round(time.monotonic() - self._started, 3),
            "ports": {"otlp_http": self.http_port, "otlp_grpc": self.grpc_port, "api": self.api_port},
            "storage": self._config.extensions.storage.path or "memory",
            "sessions": engine.work.store.sessions(),
            "live_sessions": len(engine.work.sessions),
            "open_breakers": breakers["open"],
            "half_open_breakers": breakers["half_open"],
            "streams": len(self._hub),
            "counts": engine.work.counters.as_dict() | here,
            "guards": engine.views.guards(time.time_ns()),
            **({"ledger": self._ledger.link.comparison.as_dict()} if self._ledger is not None else {}),
            "unknown_models": dict(Counter(dict(engine.prices.unknown_models)).most_common(MAX_UNKNOWN_MODELS)),
        }


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

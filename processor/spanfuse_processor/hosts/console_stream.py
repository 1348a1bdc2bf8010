"""A stream deployment, as operators see it: what workers have written to Redis, and what they tell over Kafka.

It holds no state of its own that is not read again at the start, so that any number of them may run.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib.metadata import version
from typing import Any, Final

from spanfuse_processor.api.console import DryRun, Explanation, OverlayNotice
from spanfuse_processor.config import Config
from spanfuse_processor.config.overlay import Overlay, digest
from spanfuse_processor.core.budgets import Ordered
from spanfuse_processor.core.scopes import leaderboard
from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.errors import ConfigError, SpanfuseError, StateError, UnavailableError
from spanfuse_processor.exporters.events import EventLog
from spanfuse_processor.exporters.hub import Hub, Listener
from spanfuse_processor.exporters.readmodel.model import ReadModel, SessionRow
from spanfuse_processor.exporters.readmodel.redis import RedisReadModel
from spanfuse_processor.exporters.readmodel.redis_link import RedisLink
from spanfuse_processor.hosts import observed, policy_topic
from spanfuse_processor.hosts.budget_orders import give_order
from spanfuse_processor.hosts.console_reads import ConsoleReads
from spanfuse_processor.hosts.dry_run import compare
from spanfuse_processor.hosts.explained import explained, related
from spanfuse_processor.hosts.followed import Followed, topics
from spanfuse_processor.hosts.lag import Lag
from spanfuse_processor.hosts.ledger import LedgerLink
from spanfuse_processor.hosts.overlaid import PolicyOrder
from spanfuse_processor.hosts.past_calls import past_calls
from spanfuse_processor.hosts.reload import notice_of
from spanfuse_processor.hosts.reset import reset_breaker
from spanfuse_processor.hosts.topic_tail import Tail
from spanfuse_processor.hosts.views import ALL, told_by_guards
from spanfuse_processor.telemetry.catalogue import FLEET_LAG, POLICY_EPOCH, SESSIONS, STREAMS, WORKERS, Instrument
from spanfuse_processor.telemetry.meters import Observed, Points
from spanfuse_schemas import BudgetOrder, Decision, PolicyNotice

ORDER_TIMEOUT_S: Final = 10.0
"""How long a worker may take to carry an order out, seconds."""
CHANGED_S: Final = 1.0
"""How often those who watch are told which sessions have changed, seconds."""
MAX_TOLD: Final = 1_000
"""Sessions that are named then."""
MAX_LISTED: Final = 2_000
"""Agents, models or holders of budgets looked at for a list, those last at work."""
DEFAULT_TRIED_NS: Final = 3600 * 10**9
"""Of which time calls are tried where none is named, nanoseconds."""


class StreamConsole(ConsoleReads):
    """See `api.console.Console`.

    Args:
        config: that of the workers, with `receivers.kafka` and `extensions.readmodel`.

    Raises:
        ConfigError: without these.
    """

    def __init__(self, config: Config) -> None:
        kafka, readmodel = config.receivers.kafka, config.extensions.readmodel
        missing = [("receivers.kafka", kafka is None), ("extensions.readmodel", readmodel is None)]
        if kafka is None or readmodel is None:
            raise ConfigError(
                [f"{name}: missing; `spanfuse api` needs it" for name, is_missing in missing if is_missing]
            )
        self.file, self._kafka = config, kafka
        self.link = RedisLink(readmodel.address.get_secret_value(), kafka.partitions)
        """To the read model."""
        self.exporting: Callable[[], dict[str, Any]] = dict
        """What became of what was to be told elsewhere."""
        self._shown = RedisReadModel(self.link)
        self._books = LedgerLink(config) if config.extensions.ledger is not None else None
        self._hub, self._events = Hub(keys=config.service.keys()), EventLog()
        self._now = Followed(self._hub, self._events, notice_of(config.policy()))
        self._tail = Tail(kafka, topics(kafka.partitions), self._now.take)
        self._lag = Lag(kafka)
        self._started = time.monotonic()
        self._tasks: list[asyncio.Task[None]] = []
        self._trying = asyncio.Lock()

    async def start(self) -> None:
        """Read what stands, and follow.

        Raises:
            UnavailableError: Kafka does not answer.
        """
        await self._tail.catch_up()
        self._now.begin()
        works = (self._tail.run(), self._lag.run(), self._tell_changed())
        self._tasks = [asyncio.create_task(work) for work in works]

    async def stop(self) -> None:
        """Follow no more, and let the connections go."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._hub.close()
        self._events.hub.close()
        if self._books is not None:
            self._books.close()
        with suppress(Exception):  # whatever is the matter with it, it is gone with the process
            await self.link.close()

    async def _tell_changed(self) -> None:
        while True:
            await asyncio.sleep(CHANGED_S)
            with suppress(UnavailableError):
                names = await self._shown.changed()
                if names:
                    told = {"changed": names[:MAX_TOLD], "more": len(names) > MAX_TOLD}
                    self._events.publish("sessions", json.dumps(told).encode())

    @property
    def policy(self) -> PolicyNotice:
        """The policy in force: that of the file until workers have told theirs."""
        return self._now.policy

    @property
    def ready(self) -> bool:
        """What stands is known, and followed."""
        return self._tail.following

    @property
    def live(self) -> bool:
        """What it follows is followed."""
        return not any(task.done() for task in self._tasks)

    @property
    def _rows(self) -> ReadModel:
        return self._shown

    async def status(self) -> dict[str, Any]:
        """What workers tell of themselves together, and how far behind they and this are."""
        now_ns = time.time_ns()
        workers, sessions, everybody, away = [], 0, None, ""
        try:
            workers, sessions = await self._shown.workers(), await self._shown.count()
            everybody = _restored((await self._shown.scope_states([ALL]))[ALL])
        except UnavailableError as error:
            away = str(error)
        breakers = self._now.board.breakers(now_ns)
        return {
            "host": "stream",
            "exporters": self.exporting(),
            "version": version("spanfuse"),
            "mode": self.policy.policy.mode,
            "policy_epoch": self.policy.epoch,
            "uptime_s": round(time.monotonic() - self._started, 3),
            "sessions": sessions,
            "open_breakers": breakers["open"],
            "half_open_breakers": breakers["half_open"],
            "streams": len(self._hub) + len(self._events.hub),
            "counts": _together([worker["counts"] for worker in workers]),
            "unknown_models": _together([worker.get("unknown_models", {}) for worker in workers]),
            "guards": told_by_guards(everybody, self._now.stage.policy.rules.coverage, now_ns),
            "workers": [{name: worker[name] for name in _OF_WORKER if name in worker} for worker in workers],
            "lag": self._lag.found,
            "following": self._tail.following,
            "readmodel": {"reachable": not away, "why": away},
        }

    @property
    def mode(self) -> str:
        """`observe` or `enforce`."""
        return self.policy.policy.mode

    async def observed(self) -> Observed:
        """What it says of itself at a look: what workers do not count. What is not known is left out."""
        now_ns, found = time.time_ns(), dict[Instrument, Points]()
        with suppress(UnavailableError):
            workers = await self._shown.workers()
            found[WORKERS] = {(): float(sum(bool(worker.get("ready")) for worker in workers))}
            found[SESSIONS] = {(): float(await self._shown.count())}
        if self._lag.found is not None:
            found[FLEET_LAG] = {(topic,): float(messages) for topic, messages in self._lag.found.items()}
        standing = self._now.board.decisions()
        return {
            **found,
            **await asyncio.to_thread(observed.breakers, standing, now_ns),
            STREAMS: {(): len(self._hub) + len(self._events.hub)},
            POLICY_EPOCH: {(): self.policy.epoch},
        }

    def decisions(self) -> list[Decision]:
        """What stands at present."""
        return self._now.board.shown(time.time_ns())

    async def agents(self) -> list[dict[str, Any]]:
        """What each agent came to."""
        return leaderboard.agents(await self._scopes("agent"), self._now.stage.policy.rules.adaptive)

    async def models(self) -> list[dict[str, Any]]:
        """What each model came to."""
        return leaderboard.models(await self._scopes("model"))

    async def _explained(self, key: str, row: SessionRow | None) -> Explanation:
        kind, _, name = key.partition(":")
        scopes = await self._shown.scope_states(related(key, row))
        states = {scope: _restored(data) for scope, data in scopes.items()}
        state = await self._state(name) if kind == "session" else None
        found = explained(key, state, row, states, self._now.pipeline, self._now.stage, time.time_ns())
        return found.model_copy(update={"policy_epoch": self.policy.epoch})

    async def _accounts(self, session: str) -> list[dict[str, Any]]:
        state = await self._state(session)
        return self._now.pipeline.accounts(state or SessionState(session), time.time_ns())

    async def _state(self, session: str) -> SessionState | None:
        data = await self._shown.state(session)
        with suppress(StateError):  # of another build
            return SessionState.restore(data) if data else None
        return None

    async def _scopes(self, kind: str) -> list[ScopeState]:
        found = [_restored(data) for data in await self._shown.scopes(kind, MAX_LISTED)]
        return [state for state in found if state is not None]

    async def budgets(self, scope: str = "") -> list[dict[str, Any]]:
        """The accounts of one scope, or of all, in the periods that run; with what is held, where a ledger knows."""
        now_ns = time.time_ns()
        if scope.startswith("session:"):
            name = scope.removeprefix("session:")
            rows = self._now.pipeline.accounts(await self._state(name) or SessionState(name), now_ns)
        elif scope:
            states = await self._shown.scope_states([scope])
            rows = self._now.stage.accounts(scope, _restored(states[scope]), now_ns)
        else:
            rows = await self._all_budgets(now_ns)
        books = self._books
        return await asyncio.to_thread(books.with_holds, rows) if books is not None else rows

    async def _all_budgets(self, now_ns: int) -> list[dict[str, Any]]:
        budgets = self._now.stage.policy.budgets
        states = [state for kind in dict.fromkeys(b.scope for b in budgets) for state in await self._scopes(kind)]
        rows = [row for state in states for row in self._now.stage.accounts(state.key, state, now_ns)]
        known = {row["scope"] for row in rows}
        unseen = dict.fromkeys(f"{b.scope}:{b.match}" for b in budgets if b.is_of_one)
        return rows + [row for s in unseen if s not in known for row in self._now.stage.accounts(s, None, now_ns)]

    async def order(self, order: BudgetOrder) -> Ordered:
        """Have a worker do what an operator has ordered about a budget; the ledger goes first, since it can be away."""
        order = order.model_copy(update={"at_ns": time.time_ns()})
        if self._books is not None:
            await asyncio.to_thread(self._books.order, order)
        done = await give_order(self._kafka, order, ORDER_TIMEOUT_S)
        return Ordered(done.order, done.done, done.why, done.account)

    async def audit(self, limit: int) -> list[bytes]:
        """What became of operators' last orders about budgets."""
        latest = sorted(self._now.audited, key=lambda one: -one.order.at_ns)
        return [one.to_json() for one in latest[:limit]]

    async def rebuild(self) -> int:
        """Set the ledger's books to what the spans tell."""
        if self._books is None:
            raise SpanfuseError("extensions.ledger is not set")
        return await asyncio.to_thread(self._books.rebuild, await self._all_budgets(time.time_ns()))

    async def reset(self, key: str, actor: str) -> Decision | None:
        """Have a worker close a breaker."""
        try:
            return await reset_breaker(self._kafka, key, actor, ORDER_TIMEOUT_S)
        except UnavailableError:
            raise
        except SpanfuseError:
            return None

    async def overlay(self) -> OverlayNotice | None:
        """What was laid over the configuration file last."""
        return self._now.order.notice(self.file) if self._now.order is not None else None

    async def put_policy(self, overlay: Overlay, actor: str, reason: str) -> PolicyNotice:
        """Lay sections over the configuration file of workers, and wait until one of them works by it.

        Raises:
            UnavailableError: Kafka does not answer, or no worker has taken it, as where their file says something else.
        """
        order = PolicyOrder.of(overlay, self.file, actor, reason, time.time_ns())
        wanted, before = digest(overlay.over(self.file).policy()), self.policy
        await policy_topic.lay_over(self._kafka, order)
        self._now.order = order
        with suppress(TimeoutError):
            async with asyncio.timeout(ORDER_TIMEOUT_S):
                while self.policy is before or digest(self.policy.policy) != wanted:
                    self._now.governed.clear()
                    await self._now.governed.wait()
                return self.policy
        raise UnavailableError(
            "no worker has taken the policy; does their configuration file say the same as this one?"
        )

    async def dry_run(self, overlay: Overlay, since_ns: int) -> DryRun:
        """What another policy would change about recent calls, of the last hour by default; one such at a time."""
        if self._trying.locked():
            raise SpanfuseError("another dry run is under way; wait for it")
        async with self._trying:
            since_ns = since_ns or time.time_ns() - DEFAULT_TRIED_NS
            calls, complete = await past_calls(self._kafka, since_ns)
            old, new = self.policy.policy, overlay.over(self.file).policy()
            return await asyncio.to_thread(lambda: compare(old, new, calls, complete=complete))

    def follow(self) -> tuple[Iterable[bytes], Listener]:
        """What stands at present, and a listener for what changes: what Guards hear."""
        return self._now.board.follow()

    def events(self, last_id: str = "") -> tuple[Iterable[bytes], Listener]:
        """All that happens, from behind an event on."""
        return self._events.follow(last_id)


_OF_WORKER: Final = ("worker", "at_ns", "ready", "partitions", "policy_epoch", "mode", "shown")


def _restored(data: bytes | None) -> ScopeState | None:
    with suppress(StateError):  # of another build: it starts afresh when it comes up
        return ScopeState.restore(data) if data else None
    return None


def _together(counts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Counts of several workers, families included, added up; what is no number is left out."""
    total: dict[str, Any] = {}
    for found in counts:
        for name, value in found.items():
            if isinstance(value, dict):
                total[name] = _together([total.get(name, {}), value])
            elif isinstance(value, (int, float)) and not isinstance(value, bool):
                total[name] = total.get(name, 0) + value
    return total

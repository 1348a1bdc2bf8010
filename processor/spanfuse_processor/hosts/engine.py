"""The embedded host without its servers: a request goes through the core and into the store, then the news goes out.

A request is answered once all that it led to is in the store. A large one is applied in parts, so that those who listen are
not kept waiting by it; where one part fails, the sender is told to send it again, and what was applied counts no second time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from spanfuse_processor.config import Config
from spanfuse_processor.core import breaker
from spanfuse_processor.core.budgets import Ordered
from spanfuse_processor.core.pipeline import Outcome, Pipeline
from spanfuse_processor.core.scopes import leaderboard
from spanfuse_processor.core.scopes.stage import ScopeOutcome, ScopeStage
from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.errors import DecodeError, StateError, UnavailableError
from spanfuse_processor.exporters.hub import Hub
from spanfuse_processor.hosts.board import Board, shown
from spanfuse_processor.hosts.live import LiveScopes, LiveSessions
from spanfuse_processor.hosts.reading import normaliser_of, prices_of
from spanfuse_processor.hosts.store import Changes, Store
from spanfuse_processor.otlp.decode import Encoding, decode, decode_logs
from spanfuse_processor.otlp.export import ExportResult, SignalName
from spanfuse_processor.telemetry import REJECTED, Counters
from spanfuse_schemas import Alias, BudgetOrder, Call, CallBatch, Decision

log = logging.getLogger(__name__)

T = TypeVar("T")

SOURCE: Final = "otlp"
"""Where the batches of this host come from."""
EXPIRE_AT_ONCE: Final = 500
"""Sessions forgotten in one transaction, some 5 ms."""
LARGE_BYTES: Final = 256 * 1024
"""Requests above this, some hundred spans, are read on a thread: those who listen must not wait for them."""
MAX_LISTED: Final = 2_000
"""Agents or models looked at for a list, those last at work; on a thread, as reading so many takes 150 ms."""
PART: Final = 100
"""Calls applied at once, some 10 ms."""
MAX_UNTOLD: Final = 10_000
"""What is kept while the storage does not take it: so many aliases, and calls with what was logged; of more, the newest."""


@dataclass(frozen=True, slots=True)
class Read:
    """What a request holds."""

    items: Counter[str]
    """Its spans, or its log records."""
    batch: CallBatch
    left_out: Counter[str]
    """Spans that made no call, by reason."""

    @property
    def rejected(self) -> int:
        """Spans that could not be taken."""
        return sum(self.left_out[reason] for reason in REJECTED)

    def counts(self) -> dict[str, int]:
        """What is added to the counters for it."""
        reasons = {f"ingest/{reason}": n for reason, n in self.left_out.items()}
        return {"requests": 1, **self.items, "rejected_spans": self.rejected, **reasons}


class Engine:
    """The core with its state, within one event loop.

    Args:
        config: rules and prices.
        store: state; whoever opens it closes it.
        hub: gets every decision and detection once it is stored.
    """

    def __init__(self, config: Config, store: Store, hub: Hub) -> None:
        self.store = store
        self.counters = Counters(store.totals())
        """Since the store was made, restarts included."""
        self.prices = prices_of(config.pricing)
        self.sessions = LiveSessions(store, self.counters)
        self.scopes = LiveScopes(store, self.counters)
        self.board = Board(store.decisions(), hub)
        self._pipeline = Pipeline(config.policy())
        self._stage = ScopeStage(config.policy())
        self._normaliser = normaliser_of(config, self.prices)
        self._turn = asyncio.Lock()
        self._untold = CallBatch()
        """What requests that were sent back say of earlier calls, which they do not when they are read again: whose they are,
        and what was logged for them."""
        self._due: dict[str, int] = {}
        """Key → when something of its budgets changes by itself."""
        self._follow_mode()
        self._follow_budgets()

    async def ingest(
        self, data: bytes, encoding: Encoding, received_ns: int, signal: SignalName = "traces"
    ) -> ExportResult:
        """Take a request. When this returns, its effects are stored and on their way to those who listen.

        Raises:
            DecodeError: it cannot be used and was counted; sending it again will not help.
            UnavailableError: the storage failed; to be sent again.
        """
        async with self._turn:
            return await _to_its_end(self._taken(data, encoding, received_ns, signal))

    async def _taken(self, data: bytes, encoding: Encoding, received_ns: int, signal: SignalName) -> ExportResult:
        try:
            return await self._ingest(data, encoding, received_ns, signal)
        except UnavailableError as error:
            self._refuse(error)
            raise
        except DecodeError as error:
            self._bury(data, str(error), received_ns)
            raise
        except Exception as error:  # whatever a request holds, the host goes on
            self._rolled_back()
            if not self.counters["unexpected_errors"]:
                log.exception("a request cannot be applied; such are kept as dead letters")
            self.counters.add({"unexpected_errors": 1})
            reason = f"cannot be applied: {type(error).__name__}"
            self._bury(data, reason, received_ns)
            raise DecodeError(reason) from error

    async def _ingest(self, data: bytes, encoding: Encoding, received_ns: int, signal: SignalName) -> ExportResult:
        if len(data) > LARGE_BYTES:
            read = await asyncio.to_thread(self._read, data, encoding, received_ns, signal)
        else:
            read = self._read(data, encoding, received_ns, signal)
        untold, self._untold = self._untold, CallBatch()
        calls, aliases = (*untold.calls, *read.batch.calls), (*untold.aliases, *read.batch.aliases)
        try:
            for start in range(0, len(calls) - PART, PART):
                self._apply(_part(calls[start : start + PART]), {}, received_ns)
                await asyncio.sleep(0)
            last = (len(calls) - 1) // PART * PART if calls else 0
            self._apply(_part(calls[last:], aliases), read.counts(), received_ns)
        except UnavailableError:
            logged = calls if signal == "logs" else untold.calls
            self._untold = _part(logged[-MAX_UNTOLD:], aliases[-MAX_UNTOLD:])
            raise
        return ExportResult(read.rejected, "without a trace or span id, or unreadable" if read.rejected else "")

    def _read(self, data: bytes, encoding: Encoding, received_ns: int, signal: SignalName) -> Read:
        before = Counter(self._normaliser.counters)
        if signal == "logs":
            records = decode_logs(data, encoding)
            items, batch = Counter(log_records=len(records)), self._normaliser.logs(records, received_ns)
        else:
            spans = decode(data, encoding)
            items, batch = Counter(spans=len(spans)), self._normaliser.batch(spans, received_ns)
        return Read(items, batch, self._normaliser.counters - before)

    def _apply(self, batch: CallBatch, counts: dict[str, int], received_ns: int) -> None:
        try:
            self._apply_together(batch, counts, received_ns)
        except UnavailableError:
            raise
        except Exception:
            self._rolled_back()
            self._apply_apart(batch, counts, received_ns)

    def _apply_apart(self, batch: CallBatch, counts: dict[str, int], received_ns: int) -> None:
        """Session by session, so that one which cannot be applied or stored costs none of the others.

        Raises:
            Exception: if none could be.
        """
        calls: defaultdict[str, list[Call]] = defaultdict(list)
        for call in batch.calls:
            calls[call.session].append(call)
        aliases: defaultdict[str, list[Alias]] = defaultdict(list)
        for alias in batch.aliases:
            aliases[alias.session].append(alias)
        sessions = {**calls, **aliases}
        failures: list[Exception] = []
        for session in sessions:
            try:
                self._apply_together(_part(tuple(calls[session]), tuple(aliases[session])), {}, received_ns)
            except UnavailableError:
                raise
            except Exception as error:
                self._rolled_back()
                failures.append(error)
                counts = counts | {"unapplied_calls": counts.get("unapplied_calls", 0) + len(calls[session])}
        if failures and len(failures) == len(sessions):
            raise failures[0]
        if failures and not self.counters["unapplied_calls"]:
            log.error("calls of a session cannot be applied; such are left out and counted", exc_info=failures[0])
        self._commit(Outcome(), counts, received_ns)

    def _apply_together(self, batch: CallBatch, counts: dict[str, int], received_ns: int) -> None:
        # What is rolled back was not counted either: its number is used again.
        outcome = self._pipeline.process(batch, self.sessions.load, source=SOURCE, offset=self.counters["batches"])
        second = self._stage.process(outcome.charges, self.scopes.load)
        self._commit(outcome, counts | _counts(outcome, second), received_ns, second)

    def _rolled_back(self) -> None:
        self.sessions.rolled_back()
        self.scopes.rolled_back()

    def _refuse(self, error: UnavailableError) -> None:
        self._rolled_back()
        self.counters.add({"unavailable": 1})
        if self.counters["unavailable"] == 1:
            log.error("%s; requests are sent back until it works again", error)

    def _commit(self, outcome: Outcome, counts: dict[str, int], at_ns: int, second: ScopeOutcome | None = None) -> None:
        second = second or ScopeOutcome()
        decisions, detections = outcome.decisions + second.decisions, outcome.detections + second.detections
        scopes = [(state, at_ns + self._stage.kept_ns(state)) for state in second.touched.values()]
        audited = [ordered.audited() for ordered in (*outcome.orders, *second.orders)]
        self.store.commit(Changes(outcome.touched.values(), decisions, detections, counts, at_ns, scopes, audited))
        for key, scope in second.touched.items():
            self._note_due(key, scope.due_ns())
        for name, session in outcome.touched.items():
            held = session.decision
            self._note_due(f"session:{name}", (held.expires_at_ns or 0) if held is not None and held.lapses else 0)
        self.sessions.committed()
        self.scopes.committed()
        self.counters.add(counts)
        self.board.tell(decisions, detections)

    def _bury(self, data: bytes, reason: str, at_ns: int) -> None:
        try:
            self.store.bury(data, reason, at_ns, {"dead_letters": 1})
        except UnavailableError as error:
            log.warning("a dead letter could not be kept: %s", error)
        self.counters.add({"dead_letters": 1})

    def reset(self, key: str, actor: str, at_ns: int) -> Decision | None:
        """Close a breaker, and forget what had led to its opening.

        Args:
            key: of the breaker, such as `session:checkout-42` or `agent:research`.

        Returns:
            The decision; none if nothing is known of the key.

        Raises:
            UnavailableError: the storage failed; nothing is changed.
        """
        kind, _, name = key.partition(":")
        return self._reset_session(name, actor, at_ns) if kind == "session" else self._reset_scope(key, actor, at_ns)

    def _reset_scope(self, key: str, actor: str, at_ns: int) -> Decision | None:
        if self.scopes.known(key) is None and key not in self.board:
            return None
        try:
            state = self.scopes.load(key)
            decision = self._stage.reset(state, at_ns, actor)
            changed = ScopeOutcome(decisions=[decision], touched={key: state})
            self._commit(Outcome(), {"decisions": 1}, at_ns, changed)
        except BaseException:
            self._rolled_back()
            raise
        return decision

    def _reset_session(self, session: str, actor: str, at_ns: int) -> Decision | None:
        if self.sessions.known(session) is None and f"session:{session}" not in self.board:
            return None
        try:
            state = self.sessions.load(session)
            decision = self._pipeline.reset(state, at_ns, actor)
            self._commit(Outcome(decisions=[decision], touched={session: state}), {"decisions": 1}, at_ns)
        except BaseException:
            self._rolled_back()
            raise
        return decision

    def order(self, order: BudgetOrder) -> Ordered:
        """Do what an operator has ordered about a budget.

        Returns:
            What became of it, and the account afterwards.

        Raises:
            UnavailableError: the storage failed; nothing is changed.
        """
        first, second = Outcome(), ScopeOutcome()
        try:
            if order.scope.startswith("session:"):
                batch, offset = CallBatch.model_construct(orders=(order,)), self.counters["batches"]
                first = self._pipeline.process(batch, self.sessions.load, source=SOURCE, offset=offset)
            else:
                second = self._stage.carry_out([order], self.scopes.load)
            (ordered,) = (*first.orders, *second.orders)
            if ordered.done:
                self._commit(first, _told(first, second), order.at_ns, second)
            else:
                self._rolled_back()
        except BaseException:
            self._rolled_back()
            raise
        self.counters.add({"budget_orders" if ordered.done else "refused_orders": 1})
        return ordered

    async def budgets(self, now_ns: int) -> list[dict[str, Any]]:
        """The accounts of all scopes that were at work, those last at work of each kind, and of those that budgets name."""
        budgets = self._pipeline.policy.budgets
        kinds = dict.fromkeys(budget.scope for budget in budgets)
        stored = [data for kind in kinds for data in self.store.scopes(kind, MAX_LISTED)]
        named = [f"{b.scope}:{b.match}" for b in budgets if b.is_of_one]

        def rows() -> list[dict[str, Any]]:
            found = [row for s in _restored(stored) for row in self._stage.accounts(s.key, s, now_ns)]
            known = {row["scope"] for row in found}
            unseen = [scope for scope in dict.fromkeys(named) if scope not in known]
            return found + [row for scope in unseen for row in self._stage.accounts(scope, None, now_ns)]

        return await asyncio.to_thread(rows)

    def accounts(self, scope: str, now_ns: int) -> list[dict[str, Any]]:
        """The accounts of a scope such as `user:u-7` in the periods that run, also of one that was never seen."""
        kind, _, name = scope.partition(":")
        if kind == "session":
            return self._pipeline.accounts(self.sessions.known(name) or self.sessions.fresh(name), now_ns)
        return self._stage.accounts(scope, self.scopes.known(scope), now_ns)

    def tick(self, now_ns: int) -> None:
        """Release what budgets hold back no longer, and hold what an extension held up."""
        due = [key for key, at_ns in self._due.items() if at_ns <= now_ns][:EXPIRE_AT_ONCE]
        if due:
            self._look(due, now_ns)

    def _look(self, keys: Sequence[str], now_ns: int) -> None:
        sessions = [key.removeprefix("session:") for key in keys if key.startswith("session:")]
        try:
            first = self._look_at_sessions(sessions, now_ns)
            scopes = [self.scopes.load(key) for key in keys if not key.startswith("session:")]
            second = self._stage.tick(scopes, now_ns)
            self._commit(first, _told(first, second), now_ns, second)
        except BaseException:
            self._rolled_back()
            raise

    def _look_at_sessions(self, sessions: Sequence[str], now_ns: int) -> Outcome:
        found = Outcome()
        for name in sessions:
            state = self.sessions.load(name)
            released = self._pipeline.look(state, now_ns)
            if released is not None:
                found.decisions.append(released)
                found.touched[name] = state
            self._due.pop(f"session:{name}", None)
        return found

    def _note_due(self, key: str, due_ns: int) -> None:
        if due_ns:
            self._due[key] = due_ns
        else:
            self._due.pop(key, None)

    def _follow_budgets(self) -> None:
        """Blocks of budgets under another policy: a limit that was raised, or is gone, holds nobody back."""
        held = [d for d in self.board.decisions() if d.rule.startswith("budget.")]
        for at in range(0, len(held), EXPIRE_AT_ONCE):
            self._look([decision.key for decision in held[at : at + EXPIRE_AT_ONCE]], time.time_ns())

    def expire(self, now_ns: int) -> int:
        """Forget some sessions and scopes of which nothing was heard for too long.

        Returns:
            How many of the more; with `EXPIRE_AT_ONCE` there may be others.
        """
        return max(self._expire_sessions(now_ns), self._expire_scopes(now_ns))

    def _expire_scopes(self, now_ns: int) -> int:
        over = self.store.over(now_ns, EXPIRE_AT_ONCE)
        if not over:
            return 0
        closed = [self._stage.over(self.scopes.load(scope), now_ns) for scope in over if scope in self.board]
        for scope in over:
            self._due.pop(scope, None)
        counts = {"expired_scopes": len(over), "decisions": len(closed)}
        self.scopes.rolled_back()
        self.scopes.forget(over)
        self.store.forget_scopes(over, closed, counts)
        self.counters.add(counts)
        self.board.tell(closed, ())
        return len(over)

    def _expire_sessions(self, now_ns: int) -> int:
        before_ns = now_ns - int(self._pipeline.policy.idle_timeout_s * 1e9)
        idle = self.store.idle(before_ns, EXPIRE_AT_ONCE)
        if not idle:
            return 0
        closed = [self._ended(session, now_ns) for session in idle if f"session:{session}" in self.board]
        counts = {"expired_sessions": len(idle), "decisions": len(closed)}
        self.sessions.forget(idle)
        self.store.forget(idle, closed, counts)
        self.counters.add(counts)
        self.board.tell(closed, ())
        return len(idle)

    def _ended(self, session: str, now_ns: int) -> Decision:
        state = self.sessions.known(session) or self.sessions.fresh(session)
        return breaker.close(state, now_ns, "The session is over.", self._pipeline.policy.mode)

    def _follow_mode(self) -> None:
        """Decisions of a run in the other mode are made anew: who goes back to `observe` wants nothing enforced."""
        mode = self._pipeline.policy.mode
        for decision in [d for d in self.board.decisions() if d.mode != mode]:
            kind, _, name = decision.key.partition(":")
            state = self.sessions.load(name) if kind == "session" else self.scopes.load(decision.key)
            state.epoch = max(state.epoch, decision.epoch) + 1
            again = decision.model_copy(update={"mode": mode, "epoch": state.epoch})
            if isinstance(state, SessionState):
                state.decision = again
                first, second = Outcome(decisions=[again], touched={state.key: state}), None
            else:
                state.stand_again(again)
                first, second = Outcome(), ScopeOutcome(decisions=[again], touched={state.key: state})
            self._commit(first, {"decisions": 1}, time.time_ns(), second)

    async def agents(self) -> list[dict[str, Any]]:
        """What each agent came to, dearest first, with the limits recommended for its sessions."""
        stored, settings = self.store.scopes("agent", MAX_LISTED), self._pipeline.policy.rules.adaptive
        return await asyncio.to_thread(lambda: leaderboard.agents(_restored(stored), settings))

    async def models(self) -> list[dict[str, Any]]:
        """What each model came to, dearest first."""
        stored = self.store.scopes("model", MAX_LISTED)
        return await asyncio.to_thread(lambda: leaderboard.models(_restored(stored)))

    def describe(self, session: str, now_ns: int = 0) -> dict[str, Any] | None:
        """What is known of a session; none if nothing is.

        Args:
            now_ns: by which an open decision may have expired, nanoseconds since the Unix epoch.
        """
        state = self.sessions.known(session)
        return _described(state, now_ns) if state is not None else None


def _part(calls: tuple[Call, ...], aliases: tuple[Alias, ...] = ()) -> CallBatch:
    return CallBatch.model_construct(calls=calls, aliases=aliases)


async def _to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Wait for a request even if its sender has given up meanwhile: the next one must not be read beside it, and what its spans
    say of earlier calls is said once."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # it was seen to where it was raised; nobody else asks
        raise


def _counts(outcome: Outcome, second: ScopeOutcome) -> dict[str, int]:
    found = Counter(f"detections/{detection.rule}" for detection in (*outcome.detections, *second.detections))
    return {
        "batches": 1 if outcome.charges else 0,
        "calls": outcome.counted,
        "duplicates": outcome.duplicates,
        "late": outcome.late,
        "nested": outcome.nested,
        "moved": len(outcome.taken),
        "decisions": len(outcome.decisions) + len(second.decisions),
        "cost_nano_usd": sum(c.cost_nano_usd for c in outcome.charges if c.scope == "global:*"),
        **found,
    }


def _told(first: Outcome, second: ScopeOutcome) -> dict[str, int]:
    found = Counter(f"detections/{detection.rule}" for detection in (*first.detections, *second.detections))
    return {"decisions": len(first.decisions) + len(second.decisions), **found}


def _restored(stored: list[bytes]) -> Iterator[ScopeState]:
    for data in stored:
        with suppress(StateError):  # of another version: it starts afresh when it comes up
            yield ScopeState.restore(data)


def _described(state: SessionState, now_ns: int) -> dict[str, Any]:
    decision = shown(state.decision, now_ns) if state.decision is not None else None
    return {
        "session": state.key,
        "calls": state.calls,
        "tools": state.tools,
        "tokens": state.tokens,
        "cost_nano_usd": state.cost_nano_usd,
        "first_ns": state.first_ns,
        "last_ns": state.last_ns,
        "epoch": state.epoch,
        "decision": decision.model_dump(mode="json", exclude_defaults=True) if decision is not None else None,
    }

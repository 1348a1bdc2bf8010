"""The one entry to the core: calls in, what they led to out.

For each call: is it new (`seen`), what does it mean (`turn.fold`), which rules fire (`detectors`), and what does that
change about the session's breaker (`breaker.judge`). Nothing here knows a clock, a broker or a file: time comes with the
call, and the host brings the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from spanfuse_processor.core import breaker, moving
from spanfuse_processor.core.budgets import Ordered
from spanfuse_processor.core.charges import Ledger, owner_of
from spanfuse_processor.core.circuit import is_told, reset_by
from spanfuse_processor.core.counting import correct, count, count_tools
from spanfuse_processor.core.detectors import Detector, Watchers, sight, watching
from spanfuse_processor.core.finding import Finding, detection_of
from spanfuse_processor.core.recent import Counted
from spanfuse_processor.core.rules import MAX_CACHED, RuleBook
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.core.session_budgets import SessionBudgets
from spanfuse_processor.core.turn import Turn, fold
from spanfuse_schemas import Alias, BudgetOrder, Call, CallBatch, Charge, Decision, Detection, Moved, Policy, Rules

Load = Callable[[str], SessionState | None]
"""Gives the live state of a session, a new one included; none if the batch at hand was applied to it before."""


@dataclass(slots=True)
class Outcome:
    """What a batch led to."""

    detections: list[Detection] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    charges: list[Charge] = field(default_factory=list)
    counted: int = 0
    """Calls that counted."""
    duplicates: int = 0
    """Calls whose span the session had counted before."""
    late: int = 0
    """Calls that ended before all that the session remembers: duplicates, or too late to tell."""
    nested: int = 0
    """Calls of which another span had told before."""
    redelivered: int = 0
    """Calls that the host had applied to their session before."""
    taken: dict[str, str] = field(default_factory=dict)
    """Trace whose calls turned out to belong to a session here → the session."""
    moved: list[Moved] = field(default_factory=list)
    """What goes to sessions that live elsewhere."""
    forwarded: list[Call] = field(default_factory=list)
    """Calls of traces that belong to sessions which live elsewhere."""
    touched: dict[str, SessionState] = field(default_factory=dict)
    """The sessions whose state changed."""
    orders: list[Ordered] = field(default_factory=list)
    """What became of orders about budgets."""
    steps: list[Call] = field(default_factory=list)
    """The calls that counted, and such as had counted without their content, which has come now."""
    completed: list[Call] = field(default_factory=list)
    """The latter of `steps`."""
    more: list[Call] = field(default_factory=list)
    """Calls that had counted by an estimate, with what they came to more."""

    def counts(self) -> dict[str, int]:
        """What hosts count of calls."""
        return {
            "batches": 1 if self.charges else 0,
            "calls": self.counted,
            "duplicates": self.duplicates,
            "late": self.late,
            "nested": self.nested,
            "moved": len(self.taken) + len(self.moved),
            "cost_nano_usd": sum(charge.cost_nano_usd for charge in self.charges if charge.scope == "global:*"),
        }


class Run:
    """A batch while it is applied; hosts that look at each call make it with `Pipeline.begin`."""

    __slots__ = ("_load", "_states", "ledger", "lives_here", "out")

    def __init__(self, load: Load, lives_here: Callable[[str], bool], all_traces: bool) -> None:
        self._load = load
        self._states: dict[str, SessionState | None] = {}
        self.lives_here = lives_here
        self.out = Outcome()
        self.ledger = Ledger(all_traces)

    def state(self, key: str) -> SessionState | None:
        """The state for this batch; a session that the batch has begun to change stays the same object to its end."""
        if key not in self._states:
            self._states[key] = self._load(key)
        return self._states[key]

    def begin_anew(self, state: SessionState) -> None:
        """Take another state of a session from now on."""
        self._states[state.key] = state

    def ended(self, source: str, offset: int) -> Outcome:
        """What it led to, with its charges; see `Pipeline.process`."""
        self.out.charges = self.ledger.charges(source, offset)
        return self.out


class Pipeline:
    """The core under one policy."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    @property
    def policy(self) -> Policy:
        """The policy; assign another to reload the rules."""
        return self._policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self._policy = policy
        self._book = RuleBook(policy)
        self._purses = SessionBudgets(policy)
        self._all_traces = any(budget.scope == "trace" for budget in policy.budgets)
        self._watchers: dict[tuple[int, bool], tuple[Rules, Watchers]] = {}

    def process(
        self,
        batch: CallBatch,
        load: Load,
        *,
        source: str,
        offset: int,
        lives_here: Callable[[str], bool] = lambda session: True,
    ) -> Outcome:
        """Apply a batch: what comes from elsewhere, its resets and orders, its calls in order, then what they turn out to be.

        Args:
            load: gives the states.
            source: where the batch came from, such as `spanfuse.calls-3`.
            offset: its position there; with `source` the identity of the charges.
            lives_here: whether `load` can give a session; what belongs to another is in the outcome, for the host to send.
        """
        run = self.begin(load, lives_here)
        out = run.out
        for moved in batch.moved:
            self._arrive(moved, run)
        for reset in batch.resets:
            kind, _, name = reset.key.partition(":")
            state = run.state(name) if kind == "session" else None
            if state is not None:
                out.touched[name] = state
                out.decisions.append(self.reset(state, reset.at_ns, reset.actor))
        for order in batch.orders:
            self._order(order, run)
        for call in batch.calls:
            self._one(call, run)
        for alias in batch.aliases:
            self.know(alias, run)
        for report in batch.reports:
            run.ledger.report(report)
        return run.ended(source, offset)

    def begin(self, load: Load, lives_here: Callable[[str], bool] = lambda session: True) -> Run:
        """A batch of which each call is applied by itself (`place`, `enter`), with the same arguments as for `process`."""
        return Run(load, lives_here, self._all_traces)

    def _order(self, order: BudgetOrder, run: Run) -> None:
        """Do what an operator has ordered about a budget of a session."""
        kind, _, name = order.scope.partition(":")
        state = run.state(name) if kind == "session" else None
        if state is None:
            run.out.orders.append(Ordered(order, False, "done before" if kind == "session" else "not of a session"))
            return
        ordered, told = self._purses.carry_out(state, order, self._rules_of(state))
        run.out.orders.append(ordered)
        run.out.decisions += told
        if ordered.done:
            run.out.touched[name] = state

    def accounts(self, session: SessionState, now_ns: int) -> list[dict[str, Any]]:
        """The accounts of a session in the running periods; see `core.budgets.row`."""
        return self._purses.accounts(session, self._rules_of(session), now_ns)

    @property
    def has_session_periods(self) -> bool:
        """Whether time alone can release a session: it has budgets by hour, day, week or month."""
        return any(budget.scope == "session" and budget.period != "total" for budget in self._policy.budgets)

    def look(self, session: SessionState, now_ns: int) -> Decision | None:
        """Time has passed, or the policy was changed: what of a budget stands against a session no longer is released."""
        return self._purses.look(session, self._rules_of(session), now_ns)

    def rules(self, agent: str, team: str) -> Rules:
        """The settings for an agent and a team."""
        return self._book.of(agent, team)

    def _rules_of(self, session: SessionState) -> Rules:
        return self._book.of(session.roster.first if session.roster is not None else "", "")

    def _one(self, call: Call, run: Run) -> None:
        placed, state = self.place(call, run)
        if state is not None:
            if self.enter(state, placed, run):
                run.out.touched[placed.session] = state
        elif placed is call or run.lives_here(placed.session):
            run.out.redelivered += 1
        else:
            run.out.forwarded.append(placed)

    def place(self, call: Call, run: Run) -> tuple[Call, SessionState | None]:
        """A call with the state of its session: of another one, where that of its trace has become known meanwhile; none if
        that lives elsewhere, or the batch was applied to it before."""
        state = run.state(call.session)
        if state is None or state.ways is None or not (into := moving.way_of(state, call.start_ns)):
            return call, state
        call = call.model_copy(update={"session": into, "session_source": "inherited"})
        return call, run.state(into) if run.lives_here(into) else None

    def know(self, alias: Alias, run: Run) -> None:
        """What is known by now of calls that were counted before."""
        out, state = run.out, run.state(alias.session)
        if state is None or not (state.calls or state.tools or state.ways):
            return  # nothing of it was counted here
        if alias.calls and state.seen.add(int(alias.id, 16), alias.to_ns) == "new":
            run.ledger.owe(alias)
        if alias.into and alias.into != alias.session:
            moved, told = moving.leave(state, alias, self._policy.mode)
            out.decisions += told
            if moved is not None and run.lives_here(alias.into):
                out.taken[alias.session] = alias.into
                self._arrive(moved, run)
            elif moved is not None:
                out.moved.append(moved)
        out.touched[alias.session] = state

    def _arrive(self, moved: Moved, run: Run) -> None:
        state, policy = run.state(moved.session), self._policy
        if state is None:
            return
        told = moving.arrive(state, moved, policy)
        if told is None:
            return
        run.out.decisions += told
        run.out.touched[moved.session] = state
        turn = moving.arrival(state, moved, self._book)
        self._judge(state, turn, self._watching(turn.rules, counted=True)[sight(state, turn)], run.out)

    def step(self, session: SessionState, call: Call) -> Outcome:
        """Apply one call to its session; what it costs others is the batch's affair."""
        out = Outcome()
        if self._apply(session, call, out):
            out.touched[session.key] = session
        return out

    def enter(self, session: SessionState, call: Call, run: Run) -> bool:
        """Apply a call to its session, and enter into the ledger what came of it; false: it had been told of before."""
        out, ledger = run.out, run.ledger
        decision, told, owner = session.decision, len(out.detections), owner_of(session)
        counted, corrected = out.counted, len(out.more)
        if not self._apply(session, call, out):
            return False
        for more in out.more[corrected:]:
            ledger.more(more)
        if call.kind == "llm" and out.counted > counted:
            ledger.add(call, session, owner, self._book.of(call.agent, call.team).adaptive)
        if len(out.detections) > told:
            ledger.found(call, session, out.detections[told:])
        if session.decision is not decision and _blocks(session.decision) is not _blocks(decision):
            ledger.turned(call, session)
        return True

    def reset(self, session: SessionState, at_ns: int, actor: str = "") -> Decision:
        """Close a session's breaker and forget what its detectors, limits and budget have counted."""
        decision = breaker.close(session, at_ns, reset_by(actor), self._policy.mode, reset=True)
        session.forget()
        return decision

    def _apply(self, session: SessionState, call: Call, out: Outcome) -> bool:
        # Span ids are unique within a trace only.
        status = session.seen.add(int(call.span_id, 16) ^ int(call.trace_id[:16], 16), call.end_ns)
        if status != "new":
            if status == "late":
                out.late += 1
                return False
            known = session.recent.of(call.span_id) if call.kind == "llm" and call.content != "structure" else None
            if known is not None and known.bare:
                self._complete(session, call, known, out)
                return True
            out.duplicates += 1
            return False
        if call.kind == "llm":
            counted = Counted(call)
            known = session.recent.same(counted, call.repeats)
            if known is not None:
                out.nested += 1
                known.also = counted.span
                more = correct(session, call, known)
                if more is not None:
                    out.more.append(more)
                    self._spend(session, more, out, calls=0)
                self._complete(session, call, known, out)
                return True
            session.recent.add(counted)
        out.counted += 1
        out.steps.append(call)
        count(session, call)
        if call.kind == "llm":
            self._spend(session, call, out)
        turn = fold(session, call, self._book)
        if call.called and not turn.again:
            count_tools(session, call, turn.rules.limits.max_tool_calls)
        self._judge(session, turn, self._watching(turn.rules)[sight(session, turn)], out)
        return True

    def _spend(self, session: SessionState, call: Call, out: Outcome, calls: int = 1) -> None:
        """Take a call from the budgets of its session, and tell which shares of them that reaches."""
        for found in self._purses.spend(session, call, calls):
            out.detections.append(detection_of(session, call, found, f"-{found.evidence.threshold:g}"))

    def _complete(self, session: SessionState, call: Call, known: Counted, out: Outcome) -> None:
        """Add the content of a call that was counted without it."""
        if not known.bare or call.content == "structure":
            return
        known.bare = False
        out.steps.append(call)
        out.completed.append(call)
        turn = fold(session, call.model_copy(update={"cost_nano_usd": 0}), self._book)
        self._judge(session, turn, self._watching(turn.rules, counted=True)[sight(session, turn)], out)

    def _judge(self, session: SessionState, turn: Turn, watchers: Iterable[Detector], out: Outcome) -> None:
        findings = [found for detect in watchers if (found := detect(session, turn)) is not None]
        if findings:
            self._tell(session, turn, findings, out)
        if session.budgets is not None and (asked := self._purses.asked(session, turn.call.end_ns)) is not None:
            findings.append(asked)
        if findings or session.decision is not None:
            out.decisions += breaker.judge(session, turn, findings, self._policy.mode)

    def _watching(self, rules: Rules, *, counted: bool = False) -> Watchers:
        """What watches under these settings; looked up by identity, as settings are slow to hash."""
        key = id(rules), counted
        known = self._watchers.get(key)
        if known is None or known[0] is not rules:
            if len(self._watchers) >= MAX_CACHED:
                self._watchers.clear()
            known = self._watchers[key] = rules, watching(rules, counted=counted)
        return known[1]

    @staticmethod
    def _tell(session: SessionState, turn: Turn, findings: list[Finding], out: Outcome) -> None:
        """Make detections of findings, each told once until it has been silent for a cooldown."""
        call, quiet_s = turn.call, turn.rules.breaker.cooldown_s
        for found in findings:
            if is_told(session, found, call.end_ns, quiet_s):
                out.detections.append(detection_of(session, call, found))


def _blocks(decision: Decision | None) -> bool:
    return decision is not None and decision.action == "block"

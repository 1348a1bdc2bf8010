"""The check itself: whether anything that is known stands against a call. No I/O, and no lock where nothing does."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from spanfuse import context
from spanfuse.blocked import UNAVAILABLE, Blocked
from spanfuse.bounded import Bounded
from spanfuse.context import IDENTITY, Identity
from spanfuse.counters import Counters, Refusals
from spanfuse.decisions.availability import FailMode, OnUnavailable
from spanfuse.decisions.feed import Feed
from spanfuse.decisions.judge import Judge, Mode
from spanfuse.decisions.shown import Shown
from spanfuse.decisions.verdict import ALLOWED, Verdict
from spanfuse.names import PLAIN_CHARS, legible

if TYPE_CHECKING:
    from spanfuse.decisions.table import Entry
    from spanfuse_schemas import Decision, Fingerprint

log = logging.getLogger("spanfuse")


class Checks:
    """What a Guard answers a check with.

    Args:
        feed: brings the decisions, and runs in this process once `_begin` was called.
        judge: weighs those that apply.
        on_unavailable: as of `Guard`.
        mode: as of `Guard`.
        disabled: nothing is ever asked.
        now_ns: wall clock, nanoseconds since the Unix epoch.
    """

    def __init__(
        self,
        feed: Feed,
        judge: Judge,
        on_unavailable: OnUnavailable | Mapping[str, OnUnavailable],
        mode: Mode | None,
        disabled: bool,
        now_ns: Callable[[], int],
    ) -> None:
        self.mode, self.disabled, self.now_ns = mode, disabled, now_ns
        self._feed, self._judge = feed, judge
        self._table = feed.table
        self._fail_mode = FailMode(on_unavailable)
        self._may_close = self._fail_mode.may_close
        self._local: Bounded[str | None, Entry] = Bounded(0)
        """What this process has decided about its own sessions."""
        self._cancelled: Bounded[str | None, Entry] = Bounded(0)
        """Those that it has cancelled."""
        self._new_counters()

    def _new_counters(self) -> None:
        self._counters = Counters()
        self._count = self._counters.check

    def check(
        self,
        *,
        session: object = None,
        agent: object = None,
        user: object = None,
        team: object = None,
        trace: object = None,
        messages: Any = None,
        prompt: Any = None,
    ) -> Verdict:
        """Ask whether the next call may be made. Asking changes nothing but counters, and spends the probe of a
        half-open breaker.

        Args:
            session: id of the session; each name that is not given comes from `session(...)` around the call.
            agent: name of the agent.
            user: id of the user.
            team: team that pays.
            trace: trace id, 32 hex digits; default that of the current span, with `spanfuse.otel`. It names the session
                where nothing else does.
            messages: the call's conversation: a list of message dicts in the style of OpenAI, Anthropic or GenAI, or a
                text. Read only while a block is limited to a loop, to tell a call that repeats it from one that leaves it.
            prompt: the call's text, where it has no messages.

        Raises:
            Blocked: the call is refused.
        """
        try:
            self._count()
            if not self._feed.running and not self._begin():
                return ALLOWED
            who = IDENTITY.get()
            # Names are in their one form where `strip` gives the very same text: a call of `legible` for each costs too much.
            if session is None:
                session = who.session
            elif (
                type(session) is not str or not session or session.strip() is not session or len(session) > PLAIN_CHARS
            ):
                session = legible(session) or who.session
            if agent is None:
                agent = who.agent
            elif type(agent) is not str or not agent or agent.strip() is not agent or len(agent) > PLAIN_CHARS:
                agent = legible(agent) or who.agent
            if user is None:
                user = who.user
            elif type(user) is not str or not user or user.strip() is not user or len(user) > PLAIN_CHARS:
                user = legible(user) or who.user
            if team is None:
                team = who.team
            elif type(team) is not str or not team or team.strip() is not team or len(team) > PLAIN_CHARS:
                team = legible(team) or who.team
            if trace is None:
                trace = who.trace
            elif type(trace) is not str or not trace:
                trace = legible(trace) or who.trace
            view = self._table.view
            if trace is None and (session is None or view.trace):
                trace = context.trace_source()
            if session is None and trace is not None:
                session = f"trace:{trace}"
            if (
                session in view.session
                or session in self._local
                or session in self._cancelled
                or agent in view.agent
                or user in view.user
                or team in view.team
                or trace in view.trace
                or view.everyone
                or self._may_close
            ):
                return self._consider(Identity(session, agent, user, team, trace), messages, prompt)
            return ALLOWED
        except Blocked:
            raise
        except Exception:
            return self.failed()

    async def acheck(
        self,
        *,
        session: object = None,
        agent: object = None,
        user: object = None,
        team: object = None,
        trace: object = None,
        messages: Any = None,
        prompt: Any = None,
    ) -> Verdict:
        """As `check`, without blocking the event loop where a half-open breaker has to ask the fleet for a probe."""
        import asyncio

        names = {"session": session, "agent": agent, "user": user, "team": team, "trace": trace}
        asked = partial(self.check, **names, messages=messages, prompt=prompt)
        try:
            known = self._judge.probes.shared and (self._feed.running or self._begin())
            waits = known and self._judge.asks_fleet(self._entries(context.whose(names)))
        except Exception:
            return self.failed()
        return await asyncio.to_thread(asked) if waits else asked()

    def give_back(self, scope: context.call) -> None:
        """Give back the probe that a call has taken which is not made after all."""
        self._judge.probes.give_back(scope.made)

    def _consider(self, who: Identity, messages: Any, prompt: Any) -> Verdict:
        """The slow path: something is known of this call, or has to be."""
        if self._may_close and not self._feed.available():
            key = self._fail_mode.closed(who)
            if key is not None:
                return self.refuse(self._unavailable(key), enforced=self.mode != "observe")
        entries = self._entries(who)
        if not entries:
            return ALLOWED
        ruling = self._judge.weigh(entries, Shown(messages, prompt), self._feed.stale)
        if ruling.refused is not None:
            self.refuse(ruling.refused.decision, enforced=True)
        return self._answer(ruling.observed, ruling.nudge, probe=ruling.probe)

    def _entries(self, who: Identity) -> list[Entry]:
        view = self._table.view
        found = (
            view.session.get(who.session),
            self._local.peek(who.session),
            self._cancelled.peek(who.session),
            view.trace.get(who.trace),
            view.agent.get(who.agent),
            view.user.get(who.user),
            view.team.get(who.team),
            view.everyone.get("*"),
        )
        return [entry for entry in found if entry is not None]

    def _answer(self, observed: Entry | None, nudge: Entry | None, *, probe: bool) -> Verdict:
        count = self._counters.add
        if probe:
            count("probes")
        if nudge is not None:
            count("nudged")
        text = nudge.decision.message if nudge is not None else ""
        if observed is not None:
            count("would_block", rule=observed.decision.rule, key=observed.decision.key)
            return Verdict(would_block=True, nudge=text, decision=observed.decision)
        return Verdict(nudge=text, decision=nudge.decision) if nudge is not None else ALLOWED

    def refuse(self, decision: Decision, *, enforced: bool) -> Verdict:
        """Count a refusal, and raise it where it is enforced."""
        self._counters.add("blocked" if enforced else "would_block", rule=decision.rule, key=decision.key)
        if enforced:
            raise Blocked(decision)
        return Verdict(would_block=True, decision=decision)

    def _unavailable(self, key: str) -> Decision:
        from spanfuse_schemas import Decision, Evidence

        return Decision(
            key=key,
            state="open",
            action="block",
            mode="enforce",
            rule=UNAVAILABLE,
            message=f"control unavailable, {self._feed.trouble}",
            evidence=Evidence(value=self._feed.age_s or 0, threshold=self._feed.staleness_s, unit="s"),
            issued_at_ns=self.now_ns(),
        )

    def count(self, name: str, *, rule: str | None = None, key: str = "*") -> None:
        """Count an event under one of the names of `Counts`, and a block under its rule and the key that is blocked."""
        self._counters.add(name, rule=rule, key=key)

    def take_refusals(self) -> Refusals:
        """What was refused, or would have been, since this was last asked: for reports."""
        return self._counters.take_refusals()

    def stopped(self, who: Identity, action: Callable[[], Fingerprint | None]) -> Decision | None:
        """What stops the execution of a tool; None: nothing that is enforced does. A tool is no probe; what belongs to a loop
        is the very action that the loop repeats.

        Args:
            action: gives the fingerprint of the execution. Asked only where a block is limited to a loop.
        """
        now = self.now_ns()
        for entry in self._entries(who):
            decision = entry.decision
            if decision.action != "block" or decision.conditional or not self._judge.enforces(decision.mode):
                continue
            if not entry.half_open(now) and (decision.scope_of_block == "all" or decision.repeats(action())):
                return decision
        return None

    def closed_for(self, who: Identity) -> str | None:
        """The key by which a call is not let through while nothing is known; None: it is."""
        return self._fail_mode.closed(who)

    def failed(self) -> Verdict:
        """Count a failure of our own, which lets the call pass."""
        counters = self._counters
        if not counters.snapshot().errors:
            log.warning("the guard failed and lets calls pass; this is said once", exc_info=True)
        counters.add("errors")
        return ALLOWED

    def _begin(self) -> bool:
        """Start with the first check of a process; False where there is nothing to ask."""
        if self.disabled:
            return False
        if not self._feed.closed:
            self._feed.start()
        return True

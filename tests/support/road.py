"""The real road from spans to decisions, in this process: OTLP/JSON → normaliser → pipeline; a Guard's refusals simulated."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.pricing import Prices
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.hosts.replay.sessions import refused
from spanfuse_processor.otlp.decode import decode
from spanfuse_processor.otlp.normalise import Normaliser
from spanfuse_schemas import Call, Charge, Decision, Detection, Policy
from tests.otlp.fixtures import request
from tests.support.agents import policy
from tests.support.script import Item, Sent, Shows, agent

Beyond = Callable[[list[Charge]], tuple[list[Detection], list[Decision]]]


@dataclass
class Stop:
    """Where an agent was stopped."""

    session: str
    after: int
    """Model calls of its session that were let through."""
    decision: Decision


@dataclass
class Played:
    """What became of the agents."""

    stops: dict[str, Stop] = field(default_factory=dict)
    """By session."""
    detections: list[Detection] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    """Model calls that were let through, by session."""
    states: dict[str, SessionState] = field(default_factory=dict)

    @property
    def stop(self) -> Stop | None:
        """The first stop."""
        return next(iter(self.stops.values()), None)

    @property
    def after(self) -> int | None:
        """Model calls before the first refusal; none: nothing was refused."""
        return self.stop.after if self.stop else None

    @property
    def rule(self) -> str:
        """The rule that refused first."""
        return self.stop.decision.rule if self.stop else ""

    @property
    def rules(self) -> set[str]:
        """Rules that fired on what had happened, not on what was foreseen."""
        return {d.rule for d in self.detections if not d.conditional}

    @property
    def actions(self) -> set[str]:
        """What these asked for."""
        return {d.action for d in self.detections if not d.conditional}


def play(
    spans: Iterable[Sent],
    rules: Policy | None = None,
    *,
    obey: bool = True,
    states: dict[str, SessionState] | None = None,
    beyond: Beyond | None = None,
    as_given: bool = False,
) -> Played:
    """Send spans one request each, as they end; an agent that is refused makes no further call.

    Args:
        obey: with False, agents that are refused go on all the same.
        states: what is remembered from before.
        beyond: what becomes of the charges: detections and decisions of what is larger than a session.
        as_given: the spans arrive in this order, not in that of their ends.
    """
    played = Played(states={} if states is None else states)
    pipeline, normaliser = Pipeline(rules or policy()), Normaliser(Prices())
    standing: dict[str, Decision] = {}
    for offset, sent in enumerate(spans if as_given else sorted(spans, key=lambda s: s.end_ns)):
        if obey and sent.session in played.stops:
            continue
        data = json.dumps(request(sent.span, resource=sent.resource)).encode()
        batch = normaliser.batch(decode(data, "json"), sent.end_ns)
        assert batch.calls, "every span of a script is a call"
        for call in batch.calls:
            if call.kind == "llm":
                held = next((d for key in _keys(call) if (d := standing.get(key)) and refused(d, call)), None)
                if held and call.session not in played.stops:
                    played.stops[call.session] = Stop(call.session, played.calls[call.session], held)
        if obey and sent.session in played.stops:
            continue
        outcome = pipeline.process(batch, lambda key: _state(played, key), source="field", offset=offset)
        played.calls.update(c.session for c in batch.calls if c.kind == "llm")
        played.detections += outcome.detections
        played.decisions += outcome.decisions
        detections, decisions = beyond(outcome.charges) if beyond else ([], [])
        played.detections += detections
        played.decisions += decisions
        standing.update((d.key, d) for d in (*outcome.decisions, *decisions))
    return played


def _keys(call: Call) -> Iterable[str]:
    yield f"session:{call.session}"
    yield f"trace:{call.trace_id}"
    yield from (f"{kind}:{name}" for kind in ("agent", "user", "team") if (name := getattr(call, kind)))
    yield "global:*"


def _state(played: Played, key: str) -> SessionState:
    return played.states.setdefault(key, SessionState(key))


def run(*items: Item, rules: Policy | None = None, obey: bool = True, **who: Any) -> Played:
    """One agent follows a script; see `script.agent`."""
    return play(agent(*items, **who), rules, obey=obey)


CALLS: Final[tuple[Shows, ...]] = ("messages", "spans", "both", "blocks")
"""The ways of an agent whose model calls its tools."""
ROADS: Final[tuple[Shows, ...]] = (*CALLS, "chat")


def untouched(
    *items: Item, rules: Policy | None = None, shows: Iterable[Shows] = ROADS, hints: Iterable[str] = (), **who: Any
) -> None:
    """Whatever its spans show, the agent is let through, and nothing fires but `hints`, which may warn or nudge."""
    for way in shows:
        played = run(*items, rules=rules, shows=way, **who)
        assert not played.stops, f"{way}: stopped by {played.rule} after {played.after} calls"
        assert played.rules <= set(hints), f"{way}: {played.rules}"
        assert played.actions <= {"warn", "nudge"}, f"{way}: {played.actions}"


def stopped(
    *items: Item,
    after: int | range,
    by: str | Iterable[str],
    rules: Policy | None = None,
    shows: Iterable[Shows] = ROADS,
    **who: Any,
) -> None:
    """Whatever its spans show, the agent is refused after so many model calls, by one of these rules. One that writes its
    commands as text may get one call further: its next step is not announced by a tool call."""
    for way in shows:
        played = run(*items, rules=rules, shows=way, **who)
        wanted = list(after) if isinstance(after, range) else [after]
        if way == "chat":
            wanted.append(wanted[-1] + 1)
        assert played.after in wanted, f"{way}: stopped after {played.after}; fired: {sorted(played.rules)}"
        assert played.rule in ({by} if isinstance(by, str) else set(by)), f"{way}: {played.rule}"

"""Spans of one call, and spans of its ancestors, come in any order and in any number of requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.otlp.span import Span
from spanfuse_schemas import CallBatch, Decision, Detection, Policy
from spanfuse_schemas.topics import partition_of
from tests.otlp.fixtures import NOW_NS, SECOND, TRACE, chat, normaliser, span
from tests.support.agents import policy
from tests.support.purse import budget, under

EACH_NANO_USD = 100 * 150 + 10 * 600
"""What one call of `chat` costs."""
FREE: dict[str, Any] = {"gen_ai.usage.input_tokens": None, "gen_ai.usage.output_tokens": None}


class Host:
    """Ingest and the first stage, over some partitions, each with its queue and the sessions that live there."""

    def __init__(self, partitions: int = 1, rules: Policy | None = None) -> None:
        self.normaliser = normaliser()
        self.pipeline = Pipeline(rules or policy())
        self.queues: list[list[CallBatch]] = [[] for _ in range(partitions)]
        self.states: dict[str, SessionState] = {}
        self.charged: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.detections: list[Detection] = []
        self.decisions: list[Decision] = []
        self.counted = self.nested = self.offset = 0

    def take(self, spans: Sequence[Span]) -> None:
        self.read(spans)
        self.settle()

    def read(self, spans: Sequence[Span]) -> None:
        self._send(self.normaliser.batch(spans, NOW_NS + 10_000 * SECOND))

    def settle(self) -> None:
        while waiting := [at for at, queue in enumerate(self.queues) if queue]:
            self.work(waiting[0])

    def work(self, at: int) -> None:
        """Apply the next message of a partition, if there is one."""
        if self.queues[at]:
            self._send(self._applied(self.queues[at].pop(0), at))

    def _send(self, batch: CallBatch) -> None:
        for at, queue in enumerate(self.queues):
            for mine in (
                CallBatch(calls=tuple(c for c in batch.calls if self._at(c.session) == at)),
                CallBatch(aliases=tuple(a for a in batch.aliases if self._at(a.session) == at)),
                CallBatch(moved=tuple(m for m in batch.moved if self._at(m.session) == at)),
            ):
                if mine != CallBatch():
                    queue.append(CallBatch.from_json(mine.to_json()))

    def _applied(self, batch: CallBatch, at: int) -> CallBatch:
        self.offset += 1
        out = self.pipeline.process(
            batch, self._load, source=f"p{at}", offset=self.offset, lives_here=lambda name: self._at(name) == at
        )
        for charge in out.charges:
            self.charged[charge.scope] += charge.cost_nano_usd
            self.calls[charge.scope] += charge.calls
        self.counted, self.nested = self.counted + out.counted, self.nested + out.nested
        self.detections += out.detections
        self.decisions += out.decisions
        for name, state in out.touched.items():
            self.states[name] = SessionState.restore(state.snapshot())
        return CallBatch(calls=tuple(out.forwarded), moved=tuple(out.moved))

    def _load(self, name: str) -> SessionState:
        return self.states.setdefault(name, SessionState(name))

    def _at(self, session: str) -> int:
        return partition_of(session, len(self.queues))


def agent(**more: Any) -> Span:
    """The span of an agent, which ends last and alone says whose it is."""
    known = {"gen_ai.operation.name": "invoke_agent", "session.id": "s", "user.id": "u", "team.id": "t"}
    return span(known, id=1, lasts=90, kind=1, name="invoke_agent guide", **more)


def bare(**more: Any) -> Span:
    """A model call without content."""
    return chat(attributes=more.pop("attributes", {}), **more)


def turn(number: int, *, inner: bool, response: bool) -> list[Span]:
    """A model call below the agent, seen by one instrumentation or by two, and by an HTTP client between them."""
    at, first = float(number), 10 * number
    ids = {"gen_ai.response.id": f"r{number}"} if response else {}
    said = [{"role": "user", "parts": [{"type": "text", "content": f"Question {number}"}]}]
    outer = chat(id=first, parent=1, at=at, lasts=0.5, input=said, attributes=ids, scope="outer")
    if not inner:
        return [outer]
    between = span({}, id=first + 1, parent=first, at=at + 0.05, lasts=0.4, name="POST")
    return [bare(id=first + 2, parent=first + 1, at=at + 0.1, lasts=0.3, attributes=ids, scope="inner"), between, outer]


@st.composite
def requests(draw: st.DrawFn) -> tuple[int, list[list[Span]]]:
    """Turns of one run, in any number of requests; within a turn the inner spans end first, the agent's comes anywhere."""
    count = draw(st.integers(1, 6))
    inner, response = draw(st.booleans()), draw(st.booleans())
    spans = [s for n in range(1, count + 1) for s in turn(n, inner=inner, response=response)]
    spans.insert(draw(st.integers(0, len(spans))), agent())
    cuts = sorted(draw(st.sets(st.integers(1, len(spans) - 1))) if len(spans) > 1 else [])
    return count, [spans[a:b] for a, b in zip([0, *cuts], [*cuts, len(spans)], strict=True)]


@settings(max_examples=300, deadline=None)
@given(requests(), st.integers(1, 4))
def test_however_spans_are_spread_over_requests_each_call_counts_once_under_its_session_and_user(
    run: tuple[int, list[list[Span]]], partitions: int
) -> None:
    count, parts = run
    host = Host(partitions)
    for part in parts:
        host.take(part)
    state = host.states["s"]
    assert (state.calls, state.cost_nano_usd) == (count, count * EACH_NANO_USD)
    assert host.counted == count
    assert host.charged["global:*"] == count * EACH_NANO_USD
    assert (host.charged["user:u"], host.calls["user:u"]) == (count * EACH_NANO_USD, count)
    assert host.charged["team:t"] == count * EACH_NANO_USD
    left = host.states.get(f"trace:{TRACE}")
    assert left is None or (left.calls, left.decision) == (0, None)


@settings(max_examples=300, deadline=None)
@given(requests(), st.integers(1, 4), st.data())
def test_requests_that_are_sent_again_change_nothing_however_far_each_partition_has_come(
    run: tuple[int, list[list[Span]]], partitions: int, data: st.DataObject
) -> None:
    count, parts = run
    host = Host(partitions)
    again = parts[data.draw(st.integers(0, len(parts) - 1)) :]
    for part in [*parts, *again]:
        host.read(part)
        for at in range(partitions):
            for _ in range(data.draw(st.integers(0, 2))):
                host.work(at)
    host.settle()
    assert host.states["s"].calls == count
    assert host.charged["global:*"] == count * EACH_NANO_USD
    assert host.charged["user:u"] == count * EACH_NANO_USD


def test_r084_calls_that_came_before_their_session_was_known_count_for_it_and_were_watched_meanwhile() -> None:
    host = Host()
    asked = [{"role": "user", "parts": [{"type": "text", "content": "Where is my parcel?"}]}]
    for i in range(3):
        host.take([chat(id=10 + i, parent=1, at=i, lasts=0.5, input=asked)])
    assert [d.rule for d in host.detections if d.action == "block"] == ["repeat.prompt"]
    host.take([agent()])
    assert host.states["s"].calls == 3
    held = host.states["s"].decision
    assert held is not None
    assert (held.key, held.rule) == ("session:s", "repeat.prompt")
    assert [(d.key, d.state) for d in host.decisions[-2:]] == [
        (f"session:trace:{TRACE}", "closed"),
        ("session:s", "open"),
    ]


def test_a_loop_that_goes_on_in_the_next_trace_of_the_session_is_seen_as_one() -> None:
    host = Host()
    asked = [{"role": "user", "parts": [{"type": "text", "content": "Where is my parcel?"}]}]
    for i in range(3):
        trace = f"{i + 1:032x}"
        host.take([chat(id=10 + i, parent=1, trace=trace, at=10 * i, lasts=0.5, input=asked)])
        host.take([agent(trace=trace, at=10 * i)])
    assert host.states["s"].calls == 3
    assert [d.rule for d in host.detections if d.action == "block"] == ["repeat.prompt"]


def test_two_conversations_of_one_trace_each_get_their_own_calls() -> None:
    host = Host()
    for number, session in ((1, "a"), (2, "b")):
        at = 100.0 * number
        host.take([bare(id=10 + number, parent=number, at=at + 1)])
        known = {"gen_ai.operation.name": "invoke_agent", "session.id": session}
        host.take([span(known, id=number, parent=9, at=at, lasts=90, kind=1)])
    assert {name: state.calls for name, state in host.states.items() if state.calls} == {"a": 1, "b": 1}


def test_what_comes_after_its_ancestor_was_heard_of_elsewhere_goes_where_it_belongs() -> None:
    """The worker that reads it knows nothing of the trace; the trace's state does."""
    host = Host(partitions=3)
    host.take([bare(id=10, parent=1, at=1)])
    host.take([agent()])
    host.normaliser = normaliser()
    host.take([bare(id=11, parent=1, at=2)])
    assert host.states["s"].calls == 2


def test_a_parent_that_never_comes_holds_nothing_up() -> None:
    host = Host()
    asked = [{"role": "user", "parts": [{"type": "text", "content": "Where is my parcel?"}]}]
    for i in range(4):
        host.take([chat(id=10 + i, parent=99, at=i, lasts=0.5, input=asked)])
    assert host.states[f"trace:{TRACE}"].calls == 4
    assert [d.rule for d in host.detections if d.action == "block"] == ["repeat.prompt"]


def test_content_that_only_the_outer_span_has_is_watched_though_the_inner_was_counted() -> None:
    host = Host()
    asked = [{"role": "user", "parts": [{"type": "text", "content": "Where is my parcel?"}]}]
    for i in range(3):
        host.take([bare(id=10 * i + 11, parent=10 * i + 10, at=i, lasts=0.3)])
        host.take([chat(id=10 * i + 10, at=i, lasts=0.5, input=asked)])
    assert (host.counted, host.nested) == (3, 3)
    assert [d.rule for d in host.detections if d.action == "block"] == ["repeat.prompt"]


def test_content_that_comes_for_a_counted_span_is_watched_and_not_paid_again() -> None:
    host = Host()
    asked = [{"role": "user", "parts": [{"type": "text", "content": "Where is my parcel?"}]}]
    for i in range(3):
        host.take([bare(id=10 + i, at=i, lasts=0.5)])
        host.take([chat(id=10 + i, at=i, lasts=0.5, input=asked)])
    assert host.charged["global:*"] == 3 * EACH_NANO_USD
    assert [d.rule for d in host.detections if d.action == "block"] == ["repeat.prompt"]


@pytest.mark.parametrize("first", ["inner", "outer"])
def test_two_calls_within_one_span_are_two_though_the_span_came_between(first: str) -> None:
    outer = chat(id=1, lasts=9)
    inner = [bare(id=i, parent=1, at=i, attributes={"gen_ai.response.id": f"r{i}"}) for i in (2, 3)]
    host = Host()
    for found in [inner[0], outer, inner[1]] if first == "inner" else [outer, *inner]:
        host.take([found])
    assert host.counted == 2


@pytest.mark.parametrize(("measured", "charged"), [(2_000, 2_000), (100, 1_000)])
def test_what_was_estimated_and_is_measured_by_another_span_costs_no_less_than_measured(
    measured: int, charged: int
) -> None:
    """What it was taken to cost too much is not given back: rules and budgets have gone by it."""
    host = Host()
    long = [{"role": "user", "parts": [{"type": "text", "content": "word " * 800}]}]
    host.take([chat(id=11, parent=10, at=0.1, lasts=0.3, input=long, attributes={**FREE, "session.id": "s"})])
    estimated = host.charged["global:*"]
    assert estimated == 1_000 * 150
    usage = {"gen_ai.usage.input_tokens": measured, "gen_ai.usage.output_tokens": 0, "session.id": "s"}
    host.take([chat(id=10, lasts=0.5, input=long, attributes=usage)])
    assert host.charged["global:*"] == charged * 150 == host.states["s"].cost_nano_usd
    assert (host.calls["global:*"], host.states["s"].calls) == (1, 1)


def test_budgets_of_the_session_and_the_trace_are_corrected_too_and_it_is_still_one_call() -> None:
    rules = under(
        budget("session/tokens", limit_tokens=10_000),
        budget("session/steps", limit_steps=9),
        budget("trace", limit_usd=1),
    )
    host = Host(rules=rules)
    long = [{"role": "user", "parts": [{"type": "text", "content": "word " * 800}]}]
    host.take([chat(id=11, parent=10, at=0.1, lasts=0.3, input=long, attributes={**FREE, "session.id": "s"})])
    usage = {"gen_ai.usage.input_tokens": 2_000, "gen_ai.usage.output_tokens": 0, "session.id": "s"}
    host.take([chat(id=10, lasts=0.5, input=long, attributes=usage)])
    rows = host.pipeline.accounts(host.states["s"], NOW_NS)
    assert {row["budget"]: row["spent"] for row in rows} == {"session/tokens": 2_000, "session/steps": 1}
    assert (host.charged[f"trace:{TRACE}"], host.calls[f"trace:{TRACE}"]) == (2_000 * 150, 1)

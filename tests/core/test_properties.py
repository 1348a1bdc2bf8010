"""What holds of the core for any traffic."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanfuse_processor.core.pipeline import Outcome, Pipeline
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.errors import StateError
from spanfuse_schemas import Call, CallBatch, Fingerprint
from spanfuse_schemas.fingerprint import fingerprint
from tests.support.agents import failure, llm, policy, prompt, tool

RULES = policy(
    budget_session={"limit_usd": 1e-5}, limits={"max_steps": 25, "max_tool_calls": {"*": 9}}, breaker={"cooldown_s": 5}
)

WORDS = st.sampled_from(["look", "write", "test", "attempt 1", "attempt 2", "x" * 300])


def _turn(name: str, argument: str, result: str, history: int, asks: str, **fields: Any) -> Call:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}] * max(1, history - 1)
    messages.append(
        {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": name, "arguments": argument}}]}
    )
    messages.append({"role": "tool", "tool_call_id": "c", "content": result})
    answer = {"role": "assistant", "tool_calls": [{"id": "d", "function": {"name": asks, "arguments": argument}}]}
    return llm(messages, answer, **fields)


SHAPES = st.one_of(
    st.tuples(st.just("prompt"), WORDS),
    st.tuples(st.just("tool"), WORDS, WORDS),
    st.tuples(st.just("turn"), WORDS, WORDS, st.integers(1, 4), WORDS),
    st.tuples(st.just("failure")),
)
TRAFFIC = st.lists(
    st.tuples(SHAPES, st.floats(0.001, 4), st.sampled_from(["", "planner", "coder"]), st.integers(0, 3000)), max_size=60
)


def _calls(traffic: list[Any]) -> list[Call]:
    at, calls = 0.0, []
    for shape, gap, agent, cost in traffic:
        at += gap
        fields = {"at": at, "agent": agent, "cost": cost}
        if shape[0] == "prompt":
            calls.append(prompt(shape[1], **fields))
        elif shape[0] == "tool":
            calls.append(tool("t", {"q": shape[1]}, shape[2], at=at, agent=agent))
        elif shape[0] == "turn":
            calls.append(_turn("t", shape[1], shape[2], shape[3], shape[4][:4], **fields))
        else:
            calls.append(failure(**fields))
    return calls


def _told(outcomes: list[Outcome]) -> list[Any]:
    return [(o.detections, o.decisions) for o in outcomes]


@given(TRAFFIC, st.integers(0, 60))
@settings(max_examples=60, deadline=None)
def test_a_session_restored_from_its_snapshot_goes_on_as_if_nothing_had_happened(traffic: list[Any], cut: int) -> None:
    calls, pipeline = _calls(traffic), Pipeline(RULES)
    whole, parted = SessionState("s"), SessionState("s")
    first = [pipeline.step(whole, c) for c in calls]
    second = [pipeline.step(parted, c) for c in calls[:cut]]
    parted = SessionState.restore(parted.snapshot())
    second += [pipeline.step(parted, c) for c in calls[cut:]]
    assert _told(first) == _told(second)
    assert whole.snapshot() == parted.snapshot()


@given(TRAFFIC, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_spans_delivered_again_change_nothing(traffic: list[Any], random: Any) -> None:
    calls, pipeline = _calls(traffic), Pipeline(RULES)
    clean, noisy = SessionState("s"), SessionState("s")
    first = [pipeline.step(clean, c) for c in calls]
    second = []
    for i, call in enumerate(calls):
        second.append(pipeline.step(noisy, call))
        again = pipeline.step(noisy, random.choice(calls[: i + 1]))
        assert (again.counted, again.detections, again.decisions) == (0, [], [])
    assert _told(first) == _told(second)


@given(TRAFFIC)
@settings(max_examples=60, deadline=None)
def test_epochs_grow_by_one_and_states_alternate_as_a_breaker_does(traffic: list[Any]) -> None:
    session, pipeline = SessionState("s"), Pipeline(RULES)
    decisions = [d for c in _calls(traffic) for d in pipeline.step(session, c).decisions]
    assert [d.epoch for d in decisions] == list(range(1, len(decisions) + 1))
    assert all(d.state == "open" for d in decisions if d.action == "block")
    assert all(a.state == "open" for a, b in pairwise(decisions) if b.message.startswith("The probe"))


@given(TRAFFIC, st.integers(1, 7))
@settings(max_examples=40, deadline=None)
def test_batches_and_single_calls_lead_to_the_same(traffic: list[Any], size: int) -> None:
    calls, pipeline = _calls(traffic), Pipeline(RULES)
    one, many = SessionState("s"), SessionState("s")
    singly = [pipeline.step(one, c) for c in calls]
    batches = [
        pipeline.process(CallBatch(calls=tuple(calls[i : i + size])), lambda _: many, source="t", offset=i)
        for i in range(0, len(calls), size)
    ]
    assert [d for o in singly for d in o.detections] == [d for o in batches for d in o.detections]
    assert [d for o in singly for d in o.decisions] == [d for o in batches for d in o.decisions]
    spent = sum(c.cost_nano_usd for o in batches for c in o.charges if c.scope == "global:*")
    assert spent == sum(c.cost_nano_usd for c in calls)


@given(TRAFFIC)
@settings(max_examples=30, deadline=None)
def test_state_is_bounded(traffic: list[Any]) -> None:
    session, pipeline = SessionState("s"), Pipeline(RULES)
    for round_ in range(4):
        for call in _calls([(shape, gap + round_, agent, cost) for shape, gap, agent, cost in traffic]):
            pipeline.step(session, call)
    assert len(session.snapshot()) < 12_000


def test_a_truncated_text_equals_nothing() -> None:
    cut = fingerprint("a long text that was cut", truncated=True)
    session, pipeline = SessionState("s"), Pipeline(policy())
    for i in range(10):
        call = prompt("x", at=i).model_copy(update={"input": Fingerprint(size=5000)})
        assert not pipeline.step(session, call).detections
        call = tool("t", {}, "", at=i + 0.5).model_copy(update={"output": cut})
        found = pipeline.step(session, call).detections
        assert {d.rule for d in found} <= {"repeat.action"}


def test_garbage_is_no_snapshot() -> None:
    for data in (b"", b"\x00", b"\xff" * 40, b"\x93\x01\xa1s\x02"):
        with pytest.raises(StateError):
            SessionState.restore(data)


def test_a_batch_that_was_applied_to_a_session_before_is_counted_and_skipped() -> None:
    pipeline = Pipeline(policy())
    out = pipeline.process(CallBatch(calls=(prompt("a"), prompt("b"))), lambda _: None, source="t", offset=1)
    assert (out.redelivered, out.counted, out.charges, out.touched) == (2, 0, [], {})

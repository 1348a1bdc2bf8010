"""The core's step: microseconds a call, whatever the session's length; bytes of state a session."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator

from bench import by_size, charges, fleet
from bench.report import Figure, Unmeasured, time_per_call
from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.session import SessionState
from spanfuse_schemas import Action, Call, CallBatch, Fingerprint, Message, Policy, Tokens
from spanfuse_schemas.fingerprint import action_print, exact_hash, input_print

_POLICY = Policy(mode="enforce")


def calls(count: int, *, sessions: int = 1, distinct: int = 1_000_000) -> list[Call]:
    """Calls of tool-calling agents that make progress, a turn each, spread over sessions."""
    return [_call(i, f"s{i % sessions}", i % distinct) for i in range(count)]


def _call(i: int, session: str, variant: int) -> Call:
    prints = [Fingerprint(exact=h, canon=h, size=200) for h in (exact_hash(f"{kind}{variant}") for kind in "aro")]
    messages = (Message(role="tool", tool="search", call_id=f"c{i}", print=prints[1]),)
    prior = (Action(tool="search", call_id=f"c{i}", print=prints[0]),)
    actions = (Action(tool="search", call_id=f"c{i + 1}", print=prints[2]),)
    start = 1_750_000_000 * 10**9 + i * 10**9
    return Call(
        trace_id="a" * 32,
        span_id=f"{i + 1:016x}",
        parent_span_id="b" * 16,
        start_ns=start,
        end_ns=start + 10**8,
        session=session,
        agent="research",
        user="u1",
        team="t1",
        operation="chat",
        provider="openai",
        model="gpt-4o-mini",
        tokens=Tokens(input=1200, output=50, cache_read=1024),
        cost_nano_usd=123_456,
        cost_source="computed",
        finish_reason="tool_calls",
        content="content",
        history=2 * i + 2,
        input=input_print(messages),
        answers=action_print(prior),
        answered=("search",),
        called=("search",),
        action=action_print(actions),
    )


def _sha256() -> float:
    text = b"x" * 2000
    return time_per_call(lambda n: [hashlib.sha256(text).digest() for _ in range(n)], 20_000)


def _steps(stream: list[Call]) -> float:
    times = []
    for _ in range(3):
        pipeline, states = Pipeline(_POLICY), dict[str, SessionState]()
        start = time.perf_counter()
        for call in stream:
            state = states.get(call.session)
            if state is None:
                state = states[call.session] = SessionState(call.session)
            pipeline.step(state, call)
        times.append((time.perf_counter() - start) / len(stream))
    return min(times)


def run() -> Iterator[Figure | Unmeasured]:
    """All figures of the core."""
    sha = _sha256() * 1e6
    versus = "sha256 of 2,000 bytes"
    yield from by_size.run()
    yield from fleet.run(calls(2))
    yield from charges.run()
    yield from _states()
    yield from _flows(sha, versus)


def _states() -> Iterator[Figure]:
    """Of sessions that make progress."""
    for count in (1, 5, 17, 40):
        pipeline, state = Pipeline(_POLICY), SessionState("s0")
        for call in calls(count):
            pipeline.step(state, call)
        name = f"state of a session after {count} call{'s' if count > 1 else ''}"
        yield Figure(name, len(state.snapshot()), "bytes", aim="<= 2,048")


def _flows(sha: float, versus: str) -> list[Figure]:
    working = calls(20_000, sessions=100)
    looping = calls(20_000, sessions=100, distinct=100)
    figures = [
        Figure("core step, agents at work", _steps(working) * 1e6, "us/call", sha, versus, "< 30"),
        Figure("core step, agents in loops", _steps(looping) * 1e6, "us/call", sha, versus, "< 30"),
    ]
    long = calls(100_000)
    pipeline, state, marks = Pipeline(_POLICY), SessionState("s0"), []
    for part in _parts(long, 10_000):
        start = time.perf_counter()
        for call in part:
            pipeline.step(state, call)
        marks.append((time.perf_counter() - start) / len(part) * 1e6)
    figures.append(
        Figure(
            "core step, calls 90,001 to 100,000 of one session",
            marks[-1],
            "us/call",
            marks[0],
            "calls 1 to 10,000",
            "1 x",
        )
    )
    figures.append(Figure("state of a session after 100,000 calls", len(state.snapshot()), "bytes"))
    batch = CallBatch(calls=tuple(calls(200, sessions=50)))
    data = batch.to_json()
    parse = time_per_call(lambda n: [CallBatch.from_json(data) for _ in range(n)], 20) / 200 * 1e6
    figures.append(Figure("parse a packed call", parse, "us/call", sha, versus))
    figures.append(Figure("size of a packed call", len(data) / 200, "bytes"))
    return figures


def _parts(items: list[Call], size: int) -> list[list[Call]]:
    return [items[i : i + size] for i in range(0, len(items), size)]


if __name__ == "__main__":
    print(*run(), sep="\n")

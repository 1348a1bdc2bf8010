"""What an agent says that it has achieved goes with its spans and its calls."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider

from spanfuse import Guard
from spanfuse.otel import ContextSpanProcessor
from spanfuse.steering import progress
from spanfuse.testing import FakeGuard, is_blocked

LOOPING = [{"role": "user", "content": "Poll the queue."}]


def test_the_highest_count_of_a_session_stands() -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: progress.say("counted", n), range(200)))
    assert progress.of("counted") == 199
    assert progress.of("never heard of") is None
    assert progress.of(None) is None


def test_so_many_sessions_are_remembered() -> None:
    for n in range(progress.MAX_SESSIONS + 5):
        progress.say(f"bounded-{n}", n)
    assert progress.of("bounded-0") is None
    assert progress.of(f"bounded-{progress.MAX_SESSIONS}") == progress.MAX_SESSIONS


@pytest.mark.parametrize("count", [-1, 1.5, True, "3", None, 2**63], ids=repr)
def test_what_is_no_count_is_counted_and_changes_nothing(count: object) -> None:
    guard = FakeGuard()
    guard.progress(count, session="nonsense")  # type: ignore[arg-type]
    guard.progress(1)
    assert guard.counters.errors == 2
    assert progress.of("nonsense") is None


def test_spans_say_it_from_then_on() -> None:
    provider, guard = TracerProvider(), FakeGuard()
    provider.add_span_processor(ContextSpanProcessor())
    tracer = provider.get_tracer("test")
    with guard.session("spanned"):
        before = tracer.start_span("a")
        guard.progress(7)
        after = tracer.start_span("b")
    found = [span.attributes.get(progress.ATTRIBUTE) for span in (before, after)]  # type: ignore[attr-defined]
    assert found == [None, 7]


def test_the_attribute_is_the_one_that_agents_are_told_of() -> None:
    page = (Path(__file__).parents[2] / "docs" / "rules" / "progress.md").read_text()
    assert progress.ATTRIBUTE == "spanfuse.progress"
    assert f"span attribute `{progress.ATTRIBUTE}`" in page


@pytest.mark.parametrize(("gets_on", "stopped"), [(True, False), (False, True)], ids=["gets on", "stands still"])
def test_the_local_host_lets_an_agent_go_on_that_achieves_something(gets_on: bool, stopped: bool) -> None:
    guard = Guard(local=True)
    session = f"achieving-{gets_on}"
    with guard.session(session):
        for n in range(8):
            if is_blocked(guard, messages=LOOPING):
                break
            with guard.call(model="m", messages=LOOPING) as call:
                call.answered("The queue is empty.")
            if gets_on:
                guard.progress(n + 1)
    assert (is_blocked(guard, session=session, messages=LOOPING) is not None) is stopped
    guard.close()

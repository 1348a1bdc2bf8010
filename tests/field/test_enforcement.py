"""Field reports: a stop is terminal, says what it is, cannot be talked away, and ends when it should."""

from __future__ import annotations

import asyncio
import gc
import resource
import subprocess
import sys
import textwrap
import time

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from spanfuse import Blocked
from spanfuse.testing import FakeClock, FakeGuard, block, is_blocked
from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_schemas import Decision
from tests.support.agents import policy
from tests.support.effort import growth
from tests.support.road import run
from tests.support.script import Call, prompt, tool, wait

TOPICS = ("tides", "moss", "clocks", "rope", "salt", "bees", "chalk", "owls")


def decided() -> Decision:
    """The block of an agent that ran the same query in vain."""
    stop = run(*[tool("sql", q="q").fails("bad namespace")] * 6, session="run-1").stop
    assert stop is not None
    return stop.decision


def spent() -> Decision:
    """The block of an agent that has used up its budget: only a reset releases it."""
    rules = policy(budget_session={"limit_usd": 0.3})
    stop = run(Call(cost_usd=0.1), *[prompt(f"On {t}.") for t in TOPICS], session="run-1", rules=rules).stop
    assert stop is not None
    return stop.decision


def test_r022_asking_whether_to_stop_changes_nothing() -> None:
    """A check leaves no trace in what is counted: five of them without a call between are as good as none."""
    guard = FakeGuard()
    for _ in range(5):
        assert guard.check(session="s", messages=[{"role": "user", "content": "same"}])
    assert run(prompt("same"), prompt("same")).after is None
    assert guard.refused() == 0


def test_r026_no_orchestrator_talks_a_block_away() -> None:
    """Three more calls after the block raise, each before it leaves the process."""
    guard, made = FakeGuard(spent()), []

    @guard.protect
    def call() -> None:
        made.append(1)

    for _ in range(3):
        with guard.session("run-1"), pytest.raises(Blocked):
            call()
    assert not made


def test_r045_a_swallowed_block_costs_its_agent_everything_and_the_fleet_nothing() -> None:
    """A thousand attempts that catch every exception raise a thousand times; they are counted, not reported one by one."""
    guard = FakeGuard(spent())
    raised = 0
    for _ in range(1000):
        try:
            guard.check(session="run-1")
        except Exception:
            raised += 1
    assert raised == guard.counters.blocked == 1000
    assert guard.counters.by_rule == {"budget.session": 1000}


def test_r045_a_block_is_no_error_of_the_provider() -> None:
    """No handler of time-outs, connections or I/O takes it for something to try again."""
    refusal = is_blocked(FakeGuard(spent()), session="run-1")
    assert refusal is not None
    assert type(refusal).__mro__[1] is Exception
    assert not refusal.retryable


def test_r045_calls_that_were_refused_by_us_are_not_failures_of_the_provider() -> None:
    """Spans of refused calls, which some instrumentations make, feed no rule about the provider."""
    from tests.support.script import refused

    assert "errors" not in run(*[refused("spanfuse.blocked.Blocked", "blocked by cycle: 429 of 400")] * 20).rules


def test_r047_a_script_that_is_stopped_does_not_end_in_success(tmp_path: object) -> None:
    """Whoever waits for the process sees a status that is not 0 and a reason."""
    script = textwrap.dedent(
        """
        from spanfuse.testing import FakeGuard, block
        guard = FakeGuard(block("session:s", rule="repeat.no_progress"))
        with guard.session("s"):
            guard.check()
        """
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "repeat.no_progress" in done.stderr


def test_r047_the_span_of_a_stopped_run_says_so() -> None:
    """The trace shows an error, and which rule it was."""
    exported = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exported))
    guard = FakeGuard(spent())
    with pytest.raises(Blocked), provider.get_tracer("t").start_as_current_span("run"), guard.session("run-1"):
        guard.check()
    (span,) = exported.get_finished_spans()
    assert not span.status.is_ok
    assert "blocked by" in (span.status.description or "")


def test_r048_a_stop_tells_what_a_program_needs_to_tell_it_from_a_crash() -> None:
    """Code, scope, key, rule, evidence and end come with the exception, in one stable form."""
    decision = decided()
    clock = FakeClock(decision.issued_at_ns / 1e9)
    refusal = is_blocked(FakeGuard(decision, now_ns=clock.now_ns), session="run-1")
    assert refusal is not None
    assert (refusal.code, refusal.scope, refusal.key) == ("spanfuse_blocked", "session", "session:run-1")
    assert refusal.rule in ("repeat.error", "repeat.no_progress")
    assert refusal.evidence.count == 3
    assert refusal.evidence.tool == "sql"
    assert refusal.evidence.first_span_id != refusal.evidence.last_span_id
    assert refusal.until is not None


def test_r001_a_stop_names_its_rule_and_how_to_go_on() -> None:
    """Whoever meets a stop reads which rule it was and the command that releases it."""
    text = str(Blocked(decided()))
    assert "repeat." in text
    assert "spanfuse reset session:run-1" in text


def test_r121_a_check_never_waits_for_telemetry() -> None:
    """Its thread gives up the processor for nothing, and a thousand checks take ten times as long as a hundred."""
    guard = FakeGuard(block("session:other"))

    def checks(n: int) -> None:
        for _ in range(n):
            guard.check(session="s", messages=[{"role": "user", "content": "hello"}])

    def waits() -> int:
        return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw

    checks(1)
    before = waits()
    checks(100)
    assert waits() - before < 50
    assert growth(checks, 100) < 40


def test_r123_one_team_is_stopped_for_ten_minutes_and_no_other() -> None:
    """A block by scope stops all of the team's calls, nobody else's, and releases them by itself."""
    clock = FakeClock()
    ends = clock.now_ns() + 600 * 10**9
    guard = FakeGuard(block("team:t1", expires_at_ns=ends), now_ns=clock.now_ns, monotonic=clock.monotonic)
    assert is_blocked(guard, session="a", team="t1")
    assert is_blocked(guard, session="b", agent="x", team="t1")
    assert not is_blocked(guard, session="c", team="t2")
    clock.advance(601)
    assert not is_blocked(guard, session="a", team="t1")


def test_r123_everything_is_stopped_at_once() -> None:
    """One block of the whole fleet refuses calls of every name, and of none."""
    guard = FakeGuard(block("global:*"))
    assert is_blocked(guard)
    assert is_blocked(guard, session="a", team="t1")


def test_r117_an_operator_lets_an_agent_go_on_and_it_starts_afresh() -> None:
    """After a reset nothing of before is held against the session."""
    rules = policy()
    played = run(*[tool("ls", path="/d") >> "x"] * 6, rules=rules)
    state = played.states["s"]
    released = Pipeline(rules).reset(state, state.last_ns + 1, "ops")
    assert released.state == "closed"
    assert "ops" in released.message
    assert state.decision is None
    assert state.calls == 0


def test_r117_a_probe_that_loops_again_makes_the_cooldown_longer() -> None:
    """Who does the same again when it is let through is held back twice as long."""
    played = run(*[prompt("again")] * 3, wait(400), prompt("again"), obey=False)
    first, second = [d for d in played.decisions if d.action == "block" and d.state == "open"]
    lengths = [d.expires_at_ns - d.issued_at_ns for d in (first, second) if d.expires_at_ns is not None]
    assert lengths == [300 * 10**9, 600 * 10**9]


def test_r117_each_probe_that_loops_again_is_a_new_trip_up_to_a_bound() -> None:
    """The breaker is stamped anew by every failed probe, also where several are let through."""
    rules = policy(breaker={"max_cooldown_s": 900, "probes": 3})
    again = [step for _ in range(3) for step in (wait(1000), prompt("again"))]
    played = run(*[prompt("again")] * 3, *again, obey=False, rules=rules)
    opened = [d for d in played.decisions if d.action == "block" and d.state == "open"]
    assert [(d.expires_at_ns - d.issued_at_ns) // 10**9 for d in opened if d.expires_at_ns] == [300, 600, 900, 900]
    assert {d.probes for d in opened} == {3}


def test_r113_one_probe_is_let_through_when_the_cooldown_ends() -> None:
    """Of a hundred calls that wait for the end of a cooldown, one is admitted."""
    clock = FakeClock()
    guard = FakeGuard(
        block("session:s", expires_at_ns=clock.now_ns() + 10**9), now_ns=clock.now_ns, monotonic=clock.monotonic
    )
    clock.advance(2)
    assert sum(is_blocked(guard, session="s") is None for _ in range(100)) == 1


def test_r120_a_check_among_a_hundred_thousand_blocks_is_no_work_for_an_event_loop() -> None:
    """No record is scanned: one check in a hundred takes more than 50 µs of the processor at most, one in a thousand 1 ms."""
    guard = FakeGuard(*(block(f"session:{n}") for n in range(100_000)))
    guard.check()  # which takes in what a subscriber of the same process knows

    async def checks() -> list[float]:
        took = []
        for n in range(10_000):
            began = time.thread_time()
            refused = is_blocked(guard, session=f"{n if n % 10 == 0 else -n}")
            took.append(time.thread_time() - began)
            assert bool(refused) == (n % 10 == 0)
            await asyncio.sleep(0)
        return sorted(took)

    gc.disable()  # A collection of the whole heap is no work of the check.
    try:
        took = asyncio.run(checks())
    finally:
        gc.enable()
    assert took[9_900] < 50e-6
    assert took[9_990] < 1e-3

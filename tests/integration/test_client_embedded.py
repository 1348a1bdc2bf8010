"""The Guard against the real API of a running `spanfuse up`: blocks that spans earned, resets, restarts, forks."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from spanfuse import Blocked, Guard, session
from spanfuse.emission.span_queue import PromptSpanProcessor
from spanfuse.otel import ContextSpanProcessor
from spanfuse.testing import is_blocked
from tests.client.waiting import wait_until
from tests.support.hosts import SPANFUSE, Deployment, embedded

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def fuse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A host in enforce mode."""
    with embedded(tmp_path_factory.mktemp("fuse"), {"service": {"mode": "enforce"}}) as running:
        yield running


@pytest.fixture
def guard(fuse: Deployment) -> Iterator[Guard]:
    with Guard(fuse.guard) as following:
        assert following.wait_ready(20)
        yield following


@pytest.fixture(scope="module")
def provider(fuse: Deployment) -> Iterator[TracerProvider]:
    """Spans that leave as `instrument` sends them."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    tracing = TracerProvider(shutdown_on_exit=False)
    tracing.add_span_processor(ContextSpanProcessor())
    exporter = OTLPSpanExporter(endpoint=f"{fuse.otlp}/v1/traces")
    tracing.add_span_processor(PromptSpanProcessor(exporter, schedule_delay_millis=10))
    yield tracing
    tracing.shutdown()


def model_call(provider: TracerProvider, guard: Guard, question: str) -> None:
    """Ask the Guard, then be the model: a span with its content."""
    messages = [{"role": "user", "content": question}]
    guard.check(messages=messages)
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 10,
        "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": question}]}]),
        "gen_ai.output.messages": json.dumps(
            [{"role": "assistant", "parts": [{"type": "text", "content": "Sunny."}], "finish_reason": "stop"}]
        ),
    }
    provider.get_tracer("agent").start_span("chat gpt-4o-mini", attributes=attributes).end()


def counted(fuse: Deployment, name: str) -> int:
    """Calls of a session that the host has seen."""
    try:
        with urllib.request.urlopen(f"{fuse.api}/v1/sessions/{name}", timeout=10) as answer:
            return int(json.load(answer)["calls"])
    except urllib.error.HTTPError:
        return 0


def run_away(fuse: Deployment, provider: TracerProvider, guard: Guard, name: str) -> Blocked:
    """Start over again and again, each time once the host has seen the call before, until refused; the refusal."""
    with session(name, agent="weather"):
        for made in range(4):
            try:
                model_call(provider, guard, "What is the weather in Tokyo?")
            except Blocked as refusal:
                assert made == 3, f"{made} calls were made"
                return refusal
            wait_until(lambda made=made: counted(fuse, name) > made)  # type: ignore[misc]
            if made == 2:
                wait_until(lambda: any(d.key == f"session:{name}" for d in guard.decisions()))
    raise AssertionError("it was not stopped")


def test_the_fourth_of_the_same_calls_does_not_leave_the_process(
    fuse: Deployment, guard: Guard, provider: TracerProvider
) -> None:
    refusal = run_away(fuse, provider, guard, "tokyo")
    assert (refusal.key, refusal.rule) == ("session:tokyo", "repeat.prompt")
    assert refusal.until is not None
    assert refusal.evidence.count >= 3
    with session("tokyo"):
        model_call(provider, guard, "Then tell me about Kyoto.")
    with session("another"):
        model_call(provider, guard, "What is the weather in Tokyo?")


def test_an_operators_reset_reaches_every_client(fuse: Deployment, guard: Guard, provider: TracerProvider) -> None:
    with Guard(fuse.guard) as other:
        assert other.wait_ready(20)
        run_away(fuse, provider, guard, "reset-me")
        wait_until(lambda: is_blocked(other, session="reset-me"))
        fuse.spanfuse("reset", "session:reset-me")
        wait_until(lambda: not is_blocked(guard, session="reset-me") and not is_blocked(other, session="reset-me"))


def test_a_client_that_starts_late_knows_what_was_decided_before(
    fuse: Deployment, guard: Guard, provider: TracerProvider
) -> None:
    run_away(fuse, provider, guard, "before")
    with Guard(fuse.guard) as late:
        assert late.wait_ready(20)
        assert is_blocked(late, session="before")


def test_a_block_reaches_four_preloaded_workers_within_two_seconds(
    fuse: Deployment, guard: Guard, provider: TracerProvider
) -> None:
    def worker() -> bool:
        assert guard.wait_ready(20)
        wait_until(lambda: is_blocked(guard, session="forked"), 30)
        seen = time.time()
        guard.close()
        wait_until(decided.exists, 30)
        return seen - float(decided.read_text()) < 2

    decided = fuse.config.with_name("decided")
    pids = []
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            good = False
            try:
                good = worker()
            finally:
                os._exit(0 if good else 1)
        pids.append(pid)
    run_away(fuse, provider, guard, "forked")
    partial = Path(f"{decided}.part")
    partial.write_text(str(time.time()))
    partial.rename(decided)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == [0] * 4


def test_a_killed_host_leaves_its_blocks_in_force_and_still_has_them_when_it_is_back(
    fuse: Deployment, guard: Guard, provider: TracerProvider
) -> None:
    """Last in this file, since it ends the host of the others."""
    run_away(fuse, provider, guard, "kept")
    run_away(fuse, provider, guard, "reset-meanwhile")
    fuse.kill()
    subscriber = guard._feed.subscriber
    wait_until(lambda: subscriber.state == "connecting")
    assert is_blocked(guard, session="kept")
    assert is_blocked(guard, session="unknown") is None
    again = subprocess.Popen([*SPANFUSE, "up", "--config", str(fuse.config)], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: subscriber.state == "ready", 60)
        assert is_blocked(guard, session="kept")
        fuse.spanfuse("reset", "session:reset-meanwhile")
        wait_until(lambda: is_blocked(guard, session="reset-meanwhile") is None)
    finally:
        again.terminate()
        again.wait(15)

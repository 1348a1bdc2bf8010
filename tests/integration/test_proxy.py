"""`spanfuse proxy` as a process, in front of a provider that can be killed, with and without a `spanfuse up` behind it."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from pathlib import Path

import httpx
import pytest

from tests.client.waiting import wait_until
from tests.support.fake_provider import FakeProvider, Hold, Reply
from tests.support.hosts import Deployment, embedded, free_port
from tests.support.proxy_process import COMMAND, provider_process, proxy_process

pytestmark = pytest.mark.integration

CHAT = "/v1/chat/completions"
WORDS = Reply("one two three four five")


def ask(url: str, text: str = "what is it?", session: str = "run-1", **headers: str) -> httpx.Response:
    sent = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": text}]}
    named = {"X-Spanfuse-Session-ID": session} | {f"X-Spanfuse-{k.title()}": v for k, v in headers.items()}
    return httpx.post(f"{url}{CHAT}", json=sent, headers=named, timeout=30)


def shown(host: Deployment, session: str) -> dict[str, object]:
    """What the server knows of a session."""
    answer = httpx.get(f"{host.api}/v1/sessions/{session}")
    return dict(answer.json()) if answer.status_code == 200 else {}


def test_an_agent_behind_it_is_stopped_seen_by_the_server_and_released_by_an_operator(tmp_path: Path) -> None:
    with (
        FakeProvider() as provider,
        embedded(tmp_path, {"service": {"mode": "enforce"}}) as host,
        proxy_process(provider.url, "--guard", host.guard, "--otlp", host.otlp) as proxy,
    ):
        statuses = [ask(proxy.url, agent="planner", user="ada").status_code for _ in range(5)]
        assert (statuses, provider.calls) == ([200, 200, 200, 429, 429], 3)
        wait_until(lambda: shown(host, "run-1").get("calls") == 3, what="its spans have arrived")
        wait_until(
            lambda: "run-1" in host.spanfuse("status", "--format", "json"), what="the server has decided the same"
        )
        host.spanfuse("reset", "session:run-1")
        wait_until(lambda: ask(proxy.url, agent="planner", user="ada").status_code == 200, what="it is released")


def test_a_call_without_a_session_belongs_to_the_trace_of_its_agent(tmp_path: Path) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    headers = {"traceparent": f"00-{trace}-b7ad6b7169203331-01"}
    sent = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "what is it?"}]}
    with (
        FakeProvider() as provider,
        embedded(tmp_path, {"service": {"mode": "enforce"}}) as host,
        proxy_process(provider.url, "--guard", host.guard, "--otlp", host.otlp) as proxy,
    ):
        answers = [httpx.post(f"{proxy.url}{CHAT}", json=sent, headers=headers, timeout=30) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert provider.requests[0].headers["traceparent"] == headers["traceparent"]
        wait_until(lambda: shown(host, f"trace:{trace}").get("calls") == 3, what="its spans are of that trace")


def test_what_the_server_decides_holds_in_it(tmp_path: Path) -> None:
    config = {"service": {"mode": "enforce"}, "budgets": {"team/daily": {"limit_usd": 0.01, "period": "daily"}}}
    with (
        FakeProvider(default=Reply(input_tokens=1_000_000)) as provider,
        embedded(tmp_path, config) as host,
        proxy_process(provider.url, "--guard", host.guard, "--otlp", host.otlp) as proxy,
    ):
        assert ask(proxy.url, "one", team="research").status_code == 200
        wait_until(lambda: ask(proxy.url, "two", "run-2", team="research").status_code == 429)
        refused = ask(proxy.url, "three", "run-3", team="research").json()
        assert (refused["key"], refused["error"]["code"]) == ("team:research", "spanfuse_budget_exceeded")
        assert ask(proxy.url, "four", "run-4", team="sales").status_code == 200


def test_a_provider_that_is_killed_in_a_stream_breaks_it_off_and_is_found_again() -> None:
    with provider_process() as (killed, url), proxy_process(url) as proxy:
        never = {"model": "m", "messages": [], "stream": True, "hold": 2}
        with httpx.stream("POST", f"{proxy.url}{CHAT}", json=never, timeout=30) as answer:
            pieces = answer.iter_raw()
            next(pieces)
            killed.send_signal(signal.SIGKILL)
            with pytest.raises(httpx.RemoteProtocolError):
                list(pieces)
        assert ask(proxy.url).json()["error"]["code"] == "spanfuse_provider_unreachable"
        with FakeProvider(port=int(url.rpartition(":")[2])):
            assert ask(proxy.url).status_code == 200


def test_a_proxy_that_is_killed_leaves_nothing_under_way() -> None:
    with (
        FakeProvider(default=Hold(WORDS, threading.Event(), after=2)) as provider,
        proxy_process(provider.url) as proxy,
    ):
        sent = {"model": "m", "messages": [], "stream": True}
        with httpx.stream("POST", f"{proxy.url}{CHAT}", json=sent) as answer:
            next(answer.iter_raw())
            proxy.process.kill()
            wait_until(lambda: provider.underway == 0)


def test_told_to_stop_it_finishes_its_streams_and_takes_no_more() -> None:
    release = threading.Event()
    with FakeProvider(default=Hold(WORDS, release, after=2)) as provider, proxy_process(provider.url) as proxy:
        sent = {"model": "m", "messages": [], "stream": True}
        with httpx.stream("POST", f"{proxy.url}{CHAT}", json=sent, timeout=30) as answer:
            pieces = answer.iter_raw()
            next(pieces)
            proxy.process.terminate()
            wait_until(lambda: _refused(proxy.url), what="it listens no more")
            release.set()
            assert b"".join(pieces).endswith(b"data: [DONE]\n\n")
        assert proxy.process.wait(15) == 0


def _refused(url: str) -> bool:
    try:
        httpx.get(f"{url}/healthz")
    except httpx.ConnectError:
        return True
    return False


def test_it_stops_a_loop_though_no_server_ever_answers() -> None:
    away = f"http://127.0.0.1:{free_port()}"
    with FakeProvider() as provider, proxy_process(provider.url, "--guard", away, "--otlp", away) as proxy:
        assert [ask(proxy.url).status_code for _ in range(5)] == [200, 200, 200, 429, 429]
        assert httpx.get(f"{proxy.url}/readyz").json()["guard"] == "connecting"


def test_nudges_are_added_where_that_is_asked_for(tmp_path: Path) -> None:
    config = {"service": {"mode": "enforce"}, "detectors": {"repeat.prompt": {"mode": "nudge"}}}
    with (
        FakeProvider() as provider,
        embedded(tmp_path, config) as host,
        proxy_process(provider.url, "--guard", host.guard, "--otlp", host.otlp, "--nudge") as proxy,
    ):
        wait_until(lambda: ask(proxy.url).status_code == 200 and len(provider.requests[-1].body["messages"]) == 2)
        added = provider.requests[-1].body["messages"][-1]
        assert (added["role"], "same prompt" in added["content"]) == ("user", True)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--listen", "0.0.0.0:0"], "set a token"),
        (["--listen", "nowhere"], "HOST:PORT"),
        (["--guard", "redis://x"], "redis://x"),
        (["--openai-url", "openai"], "http(s)://"),
    ],
)
def test_what_cannot_be_used_is_one_line(options: list[str], says: str) -> None:
    ran = subprocess.run([*COMMAND, *options], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 1
    assert says in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def test_its_port_is_told_when_it_is_taken() -> None:
    with FakeProvider() as provider, proxy_process(provider.url) as proxy:
        taken = proxy.url.removeprefix("http://")
        ran = subprocess.run([*COMMAND, "--listen", taken], capture_output=True, text=True, timeout=60)
        assert (ran.returncode, f"cannot listen on {taken}" in ran.stderr) == (1, True)
        assert json.loads(httpx.get(f"{proxy.url}/healthz").text) == {"status": "ok"}

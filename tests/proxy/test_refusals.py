"""What the Guard refuses never reaches the provider, and tells the agent why, until when and how to go on."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from spanfuse.testing import block
from tests.proxy.conftest import CHAT, body
from tests.support.fake_provider import FakeProvider, Reply
from tests.support.proxied import Proxied, guard

SESSION = {"X-Spanfuse-Session-ID": "run-42"}


def post(proxied: Proxied, path: str = CHAT, headers: dict[str, str] | None = None, **sent: Any) -> httpx.Response:
    return httpx.post(f"{proxied.url}{path}", json=sent or body(), headers=headers or SESSION, timeout=30)


def in_seconds(seconds: float) -> int:
    return time.time_ns() + int(seconds * 1e9)


@pytest.mark.parametrize("path", [CHAT, "/v1/responses", "/v1/messages", "/v1/completions", "/v1/embeddings"])
def test_a_blocked_session_gets_429_and_nothing_goes_upstream(provider: FakeProvider, path: str) -> None:
    known = block("session:run-42", rule="cycle", message="Three rounds of two.", expires_at_ns=in_seconds(287))
    with Proxied(provider, guard(known)) as proxied:
        answer = post(proxied, path, SESSION | {"X-Spanfuse-Agent": "planner"})
    told = answer.json()
    assert (answer.status_code, provider.calls) == (429, 0)
    assert (told["agent_id"], told["session_id"], told["state"]) == ("planner", "run-42", "open")
    assert (told["rule"], told["reason"]) == ("cycle", "Three rounds of two.")
    assert told["open_until"].endswith("Z")
    assert 285 <= told["cooldown_remaining_sec"] <= 287
    assert answer.headers["retry-after"] == str(told["cooldown_remaining_sec"])
    assert answer.headers["x-should-retry"] == "false"
    assert told["type"] == "error"
    assert told["error"]["code"] == "spanfuse_circuit_open"
    assert told["error"]["message"] == told["message"]
    assert "spanfuse reset session:run-42" in told["message"]


def test_a_stream_that_is_refused_never_begins(provider: FakeProvider) -> None:
    with Proxied(provider, guard(block("session:run-42"))) as proxied:
        answer = post(proxied, **body(stream=True))
    assert (answer.status_code, answer.headers["content-type"]) == (429, "application/json")


@pytest.mark.parametrize(
    ("key", "headers"),
    [
        ("agent:planner", {"X-Spanfuse-Agent": "planner"}),
        ("user:ada", {"X-Spanfuse-User": "ada"}),
        ("team:research", {"X-Spanfuse-Team": "research"}),
        (
            "trace:0af7651916cd43dd8448eb211c80319c",
            {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
        ),
        ("global:*", {"X-Spanfuse-Agent": "any"}),
    ],
)
def test_every_key_of_a_call_is_looked_up(provider: FakeProvider, key: str, headers: dict[str, str]) -> None:
    with Proxied(provider, guard(block(key))) as proxied:
        assert post(proxied, headers=headers).json()["key"] == key
        assert httpx.get(f"{proxied.url}/v1/models").status_code == 200


def test_a_block_without_an_end_says_null_and_asks_for_an_hour(provider: FakeProvider) -> None:
    with Proxied(provider, guard(block("session:run-42"))) as proxied:
        answer = post(proxied)
    assert (answer.json()["open_until"], answer.json()["cooldown_remaining_sec"]) == (None, None)
    assert answer.headers["retry-after"] == "3600"


def test_in_observe_mode_it_passes(provider: FakeProvider) -> None:
    with Proxied(provider, guard(block("session:run-42"), mode="observe")) as proxied:
        assert post(proxied).status_code == 200
        assert proxied.guard.counters.would_block == 1


def test_the_step_cap_of_a_header_holds_with_calls_in_flight(provider: FakeProvider) -> None:
    headers = {"X-Loopers-Session-ID": "run-42", "X-Loopers-Session-Max-Steps": "5"}
    with Proxied(provider) as proxied, ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda n: post(proxied, headers=headers, **body(f"question {n}")), range(20)))
    statuses = sorted(answer.status_code for answer in answers)
    assert (statuses, provider.calls) == ([200] * 5 + [429] * 15, 5)
    refused = next(answer.json() for answer in answers if answer.status_code == 429)
    assert (refused["rule"], refused["session_id"]) == ("limits.max_steps", "run-42")


def test_the_budget_of_a_header_is_spent_and_said(provider: FakeProvider) -> None:
    provider.default = Reply(input_tokens=1_000_000, output_tokens=100_000, model="gpt-4o")
    headers = SESSION | {"X-Spanfuse-Session-Budget": "5.00"}
    with Proxied(provider, guard(local=True)) as proxied:
        first = post(proxied, headers=headers, **body("one", model="gpt-4o"))
        second = post(proxied, headers=headers, **body("two", model="gpt-4o"))
        third = post(proxied, headers=headers, **body("three", model="gpt-4o"))
    assert float(first.headers["x-spanfuse-cost"]) == pytest.approx(3.5)
    assert float(second.headers["x-spanfuse-session-cost"]) == pytest.approx(7.0)
    assert second.headers["x-spanfuse-session-steps"] == "2"
    told = third.json()
    assert (third.status_code, provider.calls) == (429, 2)
    assert told["error"]["code"] == "spanfuse_budget_exceeded"
    assert (told["spent"], told["limit"], told["unit"]) == (pytest.approx(7.0), 5.0, "USD")


@pytest.mark.parametrize("path", [CHAT, "/v1/responses", "/v1/messages"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_an_exact_repeat_is_stopped_without_any_server(provider: FakeProvider, path: str, stream: bool) -> None:
    sent = body("what is it?", stream=stream)
    if path == "/v1/responses":
        sent["input"] = sent.pop("messages")
    with Proxied(provider, guard(local=True)) as proxied:
        statuses = [post(proxied, path, **sent).status_code for _ in range(6)]
    assert statuses == [200, 200, 200, 429, 429, 429]
    assert provider.calls == 3


def test_an_agent_that_gets_on_is_left_alone(provider: FakeProvider) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "sort my mail"}]
    with Proxied(provider, guard(local=True)) as proxied:
        for n in range(20):
            provider.script(Reply("", tools=(("read_mail", {"id": n}),)))
            answer = post(proxied, model="gpt-4o", messages=messages)
            assert answer.status_code == 200
            said = answer.json()["choices"][0]["message"]
            result = {
                "role": "tool",
                "tool_call_id": said["tool_calls"][0]["id"],
                "content": f"mail {n}: {'xyz'[n % 3] * n}",
            }
            messages += [said, result]


@pytest.mark.parametrize(
    ("arguments", "output", "passes"),
    [
        (lambda n: {"page": n}, lambda n: "ok", 8),
        (lambda n: {"page": 1}, lambda n: f"row {n}: {'xyz'[n % 3] * n}", 8),
        (lambda n: {"page": 1}, lambda n: "ok", 3),
    ],
    ids=["other arguments", "other results", "a loop"],
)
def test_responses_that_refer_to_each_other_are_one_conversation(
    provider: FakeProvider, arguments: Any, output: Any, passes: int
) -> None:
    sent: dict[str, Any] = {"model": "gpt-4o", "input": "read all pages"}
    done = 0
    with Proxied(provider, guard(local=True)) as proxied:
        for n in range(8):
            provider.script(Reply("", tools=(("read", arguments(n)),)))
            answer = post(proxied, "/v1/responses", **sent)
            if answer.status_code == 429:
                break
            done += 1
            said = answer.json()
            result = {"type": "function_call_output", "call_id": said["output"][0]["call_id"], "output": output(n)}
            sent = {"model": "gpt-4o", "input": [result], "previous_response_id": said["id"]}
    assert done == passes


def test_retries_of_what_the_provider_refused_are_told_from_a_loop(provider: FakeProvider) -> None:
    from tests.support.fake_provider import failure

    provider.script(*[failure(529)] * 2)
    with Proxied(provider, guard(local=True)) as proxied:
        assert [post(proxied).status_code for _ in range(4)] == [529, 529, 200, 200]


def test_without_a_session_calls_are_those_of_nobody_and_do_not_add_up(provider: FakeProvider) -> None:
    with Proxied(provider, guard(local=True)) as proxied:
        answers = [post(proxied, headers={"x-none": "1"}) for _ in range(8)]
    assert {answer.status_code for answer in answers} == {200}
    assert "x-spanfuse-session-steps" not in answers[0].headers


def test_wrong_headers_are_400_and_go_nowhere(provider: FakeProvider, proxied: Proxied) -> None:
    answer = post(proxied, headers=SESSION | {"X-Spanfuse-Session-Budget": "a lot"})
    assert (answer.status_code, provider.calls) == (400, 0)
    assert answer.json()["error"]["param"] == "x-spanfuse-session-budget"
    assert answer.headers["x-should-retry"] == "false"


def test_no_prompt_is_in_what_is_told(provider: FakeProvider) -> None:
    with Proxied(provider, guard(local=True)) as proxied:
        answers = [post(proxied, **body("the launch code is 0000")) for _ in range(5)]
        health = httpx.get(f"{proxied.url}/readyz").text
    assert answers[-1].status_code == 429
    assert "launch" not in answers[-1].text + json.dumps(dict(answers[-1].headers)) + health

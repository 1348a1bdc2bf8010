"""LiteLLM's proxy, a process of its own, with the Guard as its callback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from spanfuse.integrations.litellm import proxy as handler
from tests.frameworks.litellm.proxy import Proxy, running
from tests.support.fake_provider import FakeProvider, Reply, failure

pytestmark = pytest.mark.integration

ASK: list[Any] = [{"role": "user", "content": "How are you?"}]
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"model": "gpt", "messages": ASK}),
    "chat stream": ("/v1/chat/completions", {"model": "gpt", "messages": ASK, "stream": True}),
    "responses": ("/v1/responses", {"model": "gpt", "input": "How are you?"}),
    "responses stream": ("/v1/responses", {"model": "gpt", "input": "How are you?", "stream": True}),
    "messages": ("/v1/messages", {"model": "claude", "messages": ASK, "max_tokens": 50}),
    "messages stream": ("/v1/messages", {"model": "claude", "messages": ASK, "max_tokens": 50, "stream": True}),
    "completions": ("/v1/completions", {"model": "gpt", "prompt": "How are you?"}),
    "embeddings": ("/v1/embeddings", {"model": "embed", "input": "How are you?"}),
}


@pytest.fixture(scope="module")
def models() -> Iterator[FakeProvider]:
    """The models behind the proxy."""
    with FakeProvider() as fake:
        yield fake


@pytest.fixture(scope="module")
def proxy(models: FakeProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """One proxy for all tests here: it takes seconds to start."""
    with running(models, tmp_path_factory.mktemp("proxy"), "guarded.handler") as process:
        yield process


def told(text: str) -> dict[str, Any]:
    """The body of a refusal, as the proxy's version shows it."""
    error = json.loads(text)["error"]
    found: dict[str, Any] = error.get("provider_specific_fields") or json.loads(error["message"].removeprefix("429: "))
    return found


@pytest.mark.parametrize("way", WAYS)
def test_each_api_is_guarded_and_learned_from(proxy: Proxy, models: FakeProvider, way: str) -> None:
    path, body = WAYS[way]
    answer = proxy.post(path, body, x_spanfuse_session_id="run-1", x_spanfuse_agent="planner", x_spanfuse_team="red")
    assert answer.status_code == 200, answer.text
    (call,) = proxy.ended()
    assert (call["session"], call["agent"], call["team"], call["failed"]) == ("run-1", "planner", "red", False)
    assert call["model"] == body["model"]
    assert way == "embeddings" or "well." in call["reply"]
    if "stream" not in way:
        assert call["output_tokens"] == (0 if way == "embeddings" else 5)


@pytest.mark.parametrize("way", WAYS)
def test_a_session_that_is_stopped_gets_429_and_nothing_is_sent(proxy: Proxy, models: FakeProvider, way: str) -> None:
    before, (path, body) = models.calls, WAYS[way]
    answer = proxy.post(path, body, x_spanfuse_session_id="stopped", x_spanfuse_agent="planner")
    assert answer.status_code == 429
    assert "the same search three times" in answer.text
    assert models.calls == before
    found = told(answer.text)
    assert (found["error"]["code"], found["session_id"], found["agent_id"]) == (
        "spanfuse_circuit_open",
        "stopped",
        "planner",
    )
    assert (found["state"], found["rule"]) == ("open", "repeat.no_progress")
    assert found["reason"] == "the same search three times"
    assert {"open_until", "cooldown_remaining_sec", "message", "key"} <= found.keys()


def test_clients_are_told_when_to_come_back_and_do_not_try_again_by_themselves(
    proxy: Proxy, models: FakeProvider
) -> None:
    answer = proxy.post(*WAYS["chat"], x_spanfuse_session_id="stopped")
    assert (answer.headers["retry-after"], answer.headers["x-should-retry"]) == ("3600", "false")


def test_a_client_of_openai_shows_the_explanation(proxy: Proxy, models: FakeProvider) -> None:
    client = openai.OpenAI(base_url=f"{proxy.url}/v1", api_key="sk-master", max_retries=3)
    before = models.calls
    with pytest.raises(openai.RateLimitError, match="the same search three times"):
        client.chat.completions.create(model="gpt", messages=ASK, extra_headers={"X-Loopers-Session-ID": "stopped"})
    assert models.calls == before


def test_metadata_names_the_session_where_no_header_does(proxy: Proxy) -> None:
    path, body = WAYS["chat"]
    proxy.post(path, body | {"metadata": {"session_id": "run-2", "agent_name": "writer"}, "user": "ann"})
    (call,) = proxy.ended()
    assert (call["session"], call["agent"], call["user"]) == ("run-2", "writer", "ann")
    assert proxy.post(path, body | {"metadata": {"session_id": "stopped"}}).status_code == 429


def capped(proxy: Proxy, session: str, steps: str) -> httpx.Response:
    """A call of a session that may make so many."""
    caps: Any = {"x_spanfuse_session_max_steps": steps, "x_spanfuse_session_budget": "5.00"}
    path, body = WAYS["chat"]
    return proxy.post(path, body, x_spanfuse_session_id=session, **caps)


def test_headers_cap_the_session(proxy: Proxy, models: FakeProvider) -> None:
    answers = [capped(proxy, "run-3", "2") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert told(answers[2].text)["rule"] == "limits.max_steps"
    proxy.ended(2)


def test_a_nudge_is_added_to_the_messages_once(proxy: Proxy, models: FakeProvider) -> None:
    for _ in range(2):
        proxy.post(*WAYS["chat"], x_spanfuse_session_id="nudged")
    sent = [request.body["messages"] for request in models.requests[-2:]]
    assert sent == [[*ASK, {"role": "user", "content": "Answer now."}], ASK]
    proxy.ended(2)


def test_what_the_provider_refuses_is_a_failure(proxy: Proxy, models: FakeProvider) -> None:
    models.script(failure(400, "no such thing"))
    assert proxy.post(*WAYS["chat"], x_spanfuse_session_id="run-4").status_code == 400
    (call,) = proxy.ended()
    assert call["failed"]


def test_tool_calls_of_a_stream_are_learned(proxy: Proxy, models: FakeProvider) -> None:
    models.script(Reply("", (("search", {"q": "moss"}),)))
    proxy.post(*WAYS["chat stream"], x_spanfuse_session_id="run-5")
    (call,) = proxy.ended()
    assert "search" in call["reply"]
    assert "moss" in call["reply"]


def test_the_handler_works_by_its_name_in_the_configuration(
    models: FakeProvider, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With its own Guard, which needs no server. Older versions take callbacks from files beside the configuration only."""
    folder = tmp_path_factory.mktemp("named")
    (folder / "spanfuse_guard.py").write_text("from spanfuse.integrations.litellm import proxy_handler\n")
    named = handler.__name__.rpartition(".")[0] if loads_packages() else "spanfuse_guard"
    with running(models, folder, f"{named}.proxy_handler") as process:
        assert [capped(process, "run-6", "1").status_code for _ in range(2)] == [200, 429]


def loads_packages() -> bool:
    """Whether this version takes a callback from an installed package."""
    from litellm.proxy.types_utils.utils import get_instance_fn

    try:
        get_instance_fn("json.dumps", "/nowhere/config.yaml")
    except ImportError:
        return False
    return True

"""LiteLLM's functions and its Router under `wrap_litellm`."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable
from typing import Any

import litellm
import pytest
from litellm import acompletion, completion

from spanfuse import Blocked, Guard
from spanfuse.integrations.litellm import wrap_litellm
from spanfuse.testing import block, nudge
from tests.client.waiting import wait_until
from tests.frameworks.scripts import NUDGE, SEARCH, last_said
from tests.frameworks.watched import Watched
from tests.support.fake_provider import FakeProvider, Reply, broken_off, failure

ASK: list[Any] = [{"role": "user", "content": "How are you?"}]
GPT = "openai/gpt-4o-mini"
CHAT: dict[str, Any] = {"model": GPT, "messages": ASK}
USAGE: dict[str, Any] = {"stream_options": {"include_usage": True}}
EMBED: dict[str, Any] = {"model": "openai/text-embedding-3-small", "input": ["How are you?"]}


@pytest.fixture(autouse=True)
def wrapped(provider: FakeProvider, guard: Watched) -> None:
    """For the rest of the process; each test sets its own Guard."""
    wrap_litellm(guard)


def router(**settings: Any) -> litellm.Router:
    return litellm.Router([{"model_name": "m", "litellm_params": {"model": GPT}}], **settings)


def claude() -> dict[str, Any]:
    at = os.environ["ANTHROPIC_BASE_URL"]
    return {"model": "anthropic/claude-sonnet-5", "messages": ASK, "max_tokens": 50, "api_base": at}


WAYS: dict[str, Callable[[], Any]] = {
    "completion": lambda: litellm.completion(**CHAT),
    "completion by position": lambda: litellm.completion(GPT, ASK),
    "completion imported before": lambda: completion(**CHAT),
    "completion stream": lambda: list(litellm.completion(**CHAT, **USAGE, stream=True)),
    "completion of anthropic": lambda: litellm.completion(**claude()),
    "text completion": lambda: litellm.text_completion(model=GPT, prompt="How are you?"),
    "responses": lambda: litellm.responses(model=GPT, input="How are you?"),
    "responses stream": lambda: list(litellm.responses(model=GPT, input="How are you?", stream=True)),
    "embedding": lambda: litellm.embedding(**EMBED),
    "router": lambda: router().completion("m", ASK),
    "router stream": lambda: list(router().completion("m", ASK, **USAGE, stream=True)),
    "router responses": lambda: router().responses(model="m", input="How are you?"),
}


async def read(coming: Any) -> list[Any]:
    return [piece async for piece in await coming]


AWAYS: dict[str, Callable[[], Any]] = {
    "acompletion": lambda: litellm.acompletion(**CHAT),
    "acompletion imported before": lambda: acompletion(**CHAT),
    "acompletion stream": lambda: read(litellm.acompletion(**CHAT, **USAGE, stream=True)),
    "aresponses": lambda: litellm.aresponses(model=GPT, input="How are you?"),
    "aresponses stream": lambda: read(litellm.aresponses(model=GPT, input="How are you?", stream=True)),
    "anthropic messages": lambda: litellm.anthropic_messages(**claude()),
    "anthropic messages stream": lambda: read(litellm.anthropic_messages(**claude(), stream=True)),
    "aembedding": lambda: litellm.aembedding(**EMBED),
    "router": lambda: router().acompletion("m", ASK),
    "router stream": lambda: read(router().acompletion("m", ASK, **USAGE, stream=True)),
    "router aresponses": lambda: router().aresponses(model="m", input="How are you?"),
}


async def awaited(way: str) -> Any:
    return await AWAYS[way]()


def counted_once(provider: FakeProvider, guard: Watched, way: str) -> None:
    (call,) = guard.calls
    assert (call.who.session, call.error, provider.calls) == ("s", None, 1)
    assert guard.tokens == [(12, 0 if "embedding" in way else 5)]
    assert guard.spent("s").steps == 1
    assert guard.counters.errors == 0


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_calling_counts_once_and_tells_what_it_took(
    provider: FakeProvider, guard: Watched, way: str
) -> None:
    with guard.session("s"):
        WAYS[way]()
    counted_once(provider, guard, way)


@pytest.mark.parametrize("way", AWAYS)
def test_so_does_every_asynchronous_way(provider: FakeProvider, guard: Watched, way: str) -> None:
    with guard.session("s"):
        asyncio.run(awaited(way))
    counted_once(provider, guard, way)


@pytest.mark.parametrize("way", WAYS)
def test_after_a_block_nothing_is_sent_and_the_user_is_told_why(
    provider: FakeProvider, guard: Watched, way: str
) -> None:
    guard.publish(block("session:s", message="the same search three times"))
    with guard.session("s"), pytest.raises(Blocked, match="the same search three times"):
        WAYS[way]()
    assert (provider.calls, guard.counters.blocked, guard.calls) == (0, 1, [])


@pytest.mark.parametrize("way", AWAYS)
def test_nor_in_asynchronous_code(provider: FakeProvider, guard: Watched, way: str) -> None:
    guard.publish(block("session:s", message="the same search three times"))
    with guard.session("s"), pytest.raises(Blocked, match="the same search three times"):
        asyncio.run(awaited(way))
    assert (provider.calls, guard.counters.blocked) == (0, 1)


def test_retries_are_one_call_and_a_refusal_is_not_retried(provider: FakeProvider, guard: Watched) -> None:
    provider.script(failure(500, retry_after="0"), failure(500, retry_after="0"))
    with guard.session("s", max_steps=1):
        litellm.completion(**CHAT, num_retries=3, max_retries=0)
        assert (provider.calls, guard.spent("s").steps) == (3, 1)
        with pytest.raises(Blocked, match=r"limits\.max_steps"):
            litellm.completion(**CHAT, num_retries=3)
    assert (provider.calls, guard.counters.blocked) == (3, 1)


def test_a_refusal_takes_no_deployment_of_a_router_out_of_service(provider: FakeProvider, guard: Watched) -> None:
    guard.publish(block("session:s"))
    routed = router(num_retries=3, allowed_fails=0, cooldown_time=600)
    with guard.session("s"):
        for _ in range(3):
            with pytest.raises(Blocked):
                routed.completion("m", ASK)
    with guard.session("other"):
        assert routed.completion("m", ASK).choices[0].message.content == "All is well."
    assert (provider.calls, guard.counters.blocked) == (1, 3)


def test_a_stream_stays_what_it_is(provider: FakeProvider, guard: Watched) -> None:
    stream = litellm.completion(**CHAT, stream=True)
    assert isinstance(stream, litellm.CustomStreamWrapper)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "All is well."
    assert guard.said == ["All is well."]


def test_a_stream_that_is_left_early_is_charged_what_came(provider: FakeProvider, guard: Watched) -> None:
    """Once LiteLLM lets go of it as well: its threads hold it for a while, older versions until the next call."""
    provider.script(Reply("one two three four"))
    for chunk in litellm.completion(**CHAT, stream=True):
        if chunk.choices[0].delta.content:
            break
    del chunk
    litellm.completion(**CHAT)
    wait_until(lambda: gc.collect() >= 0 and len(guard.calls) == 2)
    assert any(str(said).startswith("one ") for said in guard.said)


def test_a_stream_ends_when_it_is_closed(provider: FakeProvider, guard: Watched) -> None:
    stream = litellm.completion(**CHAT, stream=True)
    next(stream)
    stream.close()
    assert len(guard.calls) == 1


def test_a_connection_that_is_lost_in_a_stream_is_a_failure(provider: FakeProvider, guard: Watched) -> None:
    provider.script(broken_off(reply=Reply("one two three"), after=3))
    with pytest.raises(Exception, match=r"(?i)peer closed|incomplete|connection"):
        list(litellm.completion(**CHAT, stream=True, num_retries=0, max_retries=0))
    assert guard.calls[0].error is not None


def test_what_litellm_says_of_the_cost_is_believed(provider: FakeProvider, guard: Watched) -> None:
    with guard.session("s"):
        response: Any = litellm.completion(**CHAT)
    assert response.spanfuse_cost == response._hidden_params["response_cost"] > 0
    assert (response.spanfuse_session_steps, response.spanfuse_session_cost) == (1, response.spanfuse_cost)


def test_a_nudge_is_added_to_a_copy_of_the_messages_once(provider: FakeProvider, guard: Watched) -> None:
    guard.publish(nudge("session:s", NUDGE), nudge("session:t", NUDGE))
    asked = list(ASK)
    with guard.session("s"):
        litellm.completion(GPT, asked)
        litellm.completion(GPT, asked)
    with guard.session("t"):
        litellm.responses("How are you?", GPT)
    assert [last_said(request) for request in provider.requests] == [NUDGE, "How are you?", NUDGE]
    assert asked == ASK


def test_metadata_names_whose_call_it_is_where_nobody_else_does(provider: FakeProvider, guard: Watched) -> None:
    litellm.completion(**CHAT, metadata={"session_id": "m", "agent_name": "writer", "team_id": "red"}, user="ann")
    with guard.session("s"):
        litellm.completion(**CHAT, metadata={"session_id": "m"})
    first, second = (call.who for call in guard.calls)
    assert (first.session, first.agent, first.user, first.team) == ("m", "writer", "ann", "red")
    assert second.session == "s"


def test_a_loop_is_stopped_without_a_server(provider: FakeProvider) -> None:
    wrap_litellm(Guard(local=True))
    provider.default = SEARCH
    messages = list(ASK)

    def work() -> None:
        for _ in range(20):
            said = litellm.completion(GPT, messages, metadata={"session_id": "run-1"}).choices[0].message
            messages.extend((said, {"role": "tool", "tool_call_id": said.tool_calls[0].id, "content": "nothing found"}))

    with pytest.raises(Blocked, match="run-1"):
        work()
    assert provider.calls < 10


def test_a_second_time_it_changes_the_guard_and_wraps_nothing(provider: FakeProvider, guard: Watched) -> None:
    function = litellm.completion
    with Watched() as other:
        wrap_litellm(other)
        litellm.completion(**CHAT)
        assert litellm.completion is function is completion
        assert (guard.counters.checks, other.counters.checks) == (0, 1)

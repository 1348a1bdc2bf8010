"""Anthropic's own clients under `wrap_anthropic`, in all the ways in which they make calls, and the drop-in for them."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import anthropic
import pytest

from spanfuse import Blocked
from spanfuse.integrations.anthropic import Anthropic, AsyncAnthropic, wrap_anthropic
from spanfuse.testing import block, nudge
from tests.frameworks.scripts import NUDGE, last_said
from tests.frameworks.watched import Watched
from tests.support.fake_provider import FakeProvider, Raw, Reply, broken_off, failure

ASK: list[Any] = [{"role": "user", "content": "How are you?"}]
CALL: dict[str, Any] = {"model": "claude-sonnet-5", "max_tokens": 100, "messages": ASK, "system": "Be brief."}


def helper(client: anthropic.Anthropic) -> Any:
    with client.messages.stream(**CALL) as stream:
        return "".join(stream.text_stream)


def final(client: anthropic.Anthropic) -> Any:
    with client.messages.stream(**CALL) as stream:
        return stream.get_final_message()


def raw_lines(client: anthropic.Anthropic) -> Any:
    with client.messages.with_streaming_response.create(**CALL, stream=True) as response:
        return list(response.iter_lines())


def raw_whole(client: anthropic.Anthropic) -> Any:
    with client.messages.with_streaming_response.create(**CALL) as response:
        return response.parse()


WAYS: dict[str, Callable[[anthropic.Anthropic], Any]] = {
    "create": lambda c: c.messages.create(**CALL),
    "stream": lambda c: list(c.messages.create(**CALL, stream=True)),
    "helper": helper,
    "final": final,
    "beta": lambda c: c.beta.messages.create(**CALL),
    "raw": lambda c: c.messages.with_raw_response.create(**CALL).parse(),
    "raw stream": lambda c: list(c.messages.with_raw_response.create(**CALL, stream=True).parse()),
    "raw lines": raw_lines,
    "raw whole": raw_whole,
    "client raw": lambda c: c.with_raw_response.messages.create(**CALL),
    "copy": lambda c: c.with_options(timeout=5).copy(max_retries=0).messages.create(**CALL),
}


async def astream(client: anthropic.AsyncAnthropic) -> Any:
    return [event async for event in await client.messages.create(**CALL, stream=True)]


async def ahelper(client: anthropic.AsyncAnthropic) -> Any:
    async with client.messages.stream(**CALL) as stream:
        return await stream.get_final_message()


async def araw_lines(client: anthropic.AsyncAnthropic) -> Any:
    async with client.messages.with_streaming_response.create(**CALL, stream=True) as response:
        return [line async for line in response.iter_lines()]


AWAYS: dict[str, Callable[[anthropic.AsyncAnthropic], Any]] = {
    "create": lambda c: c.messages.create(**CALL),
    "stream": astream,
    "helper": ahelper,
    "raw": lambda c: c.messages.with_raw_response.create(**CALL),
    "raw lines": araw_lines,
    "copy": lambda c: c.with_options(timeout=5).messages.create(**CALL),
}


def sync_client(guard: Watched, **settings: Any) -> anthropic.Anthropic:
    return wrap_anthropic(anthropic.Anthropic(**settings), guard)


def in_a_loop(guard: Watched, use: Callable[[anthropic.AsyncAnthropic], Any], **settings: Any) -> Any:
    async def main() -> Any:
        async with anthropic.AsyncAnthropic(**settings) as client:
            return await use(wrap_anthropic(client, guard))

    return asyncio.run(main())


def counted_once(provider: FakeProvider, guard: Watched) -> None:
    (call,) = guard.calls
    assert (call.who.session, call.asked.model, call.asked.provider) == ("s", "claude-sonnet-5", "anthropic")
    assert (call.asked.messages, call.asked.system, call.asked.max_output_tokens) == (ASK, "Be brief.", 100)
    assert guard.tokens == [(12, 5)]
    assert (provider.calls, call.error, guard.counters.errors) == (1, None, 0)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_calling_counts_once_and_tells_what_it_took(
    provider: FakeProvider, guard: Watched, way: str
) -> None:
    with guard.session("s"):
        WAYS[way](sync_client(guard))
    counted_once(provider, guard)


@pytest.mark.parametrize("way", AWAYS)
def test_so_does_every_asynchronous_way(provider: FakeProvider, guard: Watched, way: str) -> None:
    with guard.session("s"):
        in_a_loop(guard, AWAYS[way])
    counted_once(provider, guard)


@pytest.mark.parametrize("way", WAYS)
def test_after_a_block_nothing_is_sent_and_the_user_is_told_why(
    provider: FakeProvider, guard: Watched, way: str
) -> None:
    client = sync_client(guard, max_retries=5)
    guard.publish(block("session:s", message="the same search three times"))
    with guard.session("s"), pytest.raises(Blocked, match="the same search three times"):
        WAYS[way](client)
    assert (provider.calls, guard.counters.blocked, guard.calls) == (0, 1, [])


@pytest.mark.parametrize("way", AWAYS)
def test_nor_in_asynchronous_code(provider: FakeProvider, guard: Watched, way: str) -> None:
    guard.publish(block("session:s", message="the same search three times"))
    with guard.session("s"), pytest.raises(Blocked, match="the same search three times"):
        in_a_loop(guard, AWAYS[way], max_retries=5)
    assert (provider.calls, guard.counters.blocked) == (0, 1)


def test_the_retries_of_the_client_are_one_call(provider: FakeProvider, guard: Watched) -> None:
    provider.script(failure(529, anthropic=True, retry_after="0"), failure(429, anthropic=True, retry_after="0"))
    with guard.session("s"):
        sync_client(guard, max_retries=3).messages.create(**CALL)
    assert (provider.calls, guard.counters.checks, guard.spent("s").steps) == (3, 1, 1)


def test_counting_tokens_passes(provider: FakeProvider, guard: Watched) -> None:
    guard.publish(block("session:s"))
    with guard.session("s"):
        assert sync_client(guard).messages.count_tokens(model="claude-sonnet-5", messages=ASK).input_tokens == 12
    assert guard.counters.checks == 0


def test_tool_calls_of_a_stream_are_learned(provider: FakeProvider, guard: Watched) -> None:
    provider.script(Reply("Let me look.", (("search", {"q": "moss"}),)))
    list(sync_client(guard).messages.create(**CALL, stream=True))
    (answer,) = [call.answer for call in guard.calls]
    assert answer is not None
    assert answer.reply is not None
    assert answer.reply[0]["content"][1]["input"] == {"q": "moss"}
    assert answer.finish_reason == "tool_use"


def test_a_stream_that_is_left_early_is_charged_what_came(provider: FakeProvider, guard: Watched) -> None:
    provider.script(Reply("one two three four"))
    for event in sync_client(guard).messages.create(**CALL, stream=True):
        if event.type == "content_block_delta":
            break
    del event
    gc.collect()
    (call,) = guard.calls
    assert call.error is None
    assert call.answer is not None
    assert call.answer.input_tokens == 12


def test_a_helper_that_is_left_early_ends_its_call(provider: FakeProvider, guard: Watched) -> None:
    with sync_client(guard).messages.stream(**CALL) as stream:
        next(iter(stream))
        assert guard.calls == []
    assert len(guard.calls) == 1


def test_a_connection_that_is_lost_in_a_stream_is_a_failure(provider: FakeProvider, guard: Watched) -> None:
    provider.script(broken_off("/v1/messages", Reply("one two three"), after=4))
    with pytest.raises(Exception, match=r"peer closed|incomplete|Connection"):
        list(sync_client(guard).messages.create(**CALL, stream=True))
    assert guard.calls[0].error is not None


def test_an_error_that_a_stream_tells_of_is_a_failure(provider: FakeProvider, guard: Watched) -> None:
    told = b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}\n\n'
    provider.script(Raw(200, [told], {"content-type": "text/event-stream"}))
    with pytest.raises(anthropic.APIStatusError, match="Overloaded"):
        list(sync_client(guard).messages.create(**CALL, stream=True))
    assert "Overloaded" in str(guard.calls[0].error)


def test_a_nudge_is_added_to_a_copy_of_the_messages_once(provider: FakeProvider, guard: Watched) -> None:
    guard.publish(nudge("session:s", NUDGE))
    client, asked = sync_client(guard), list(ASK)
    with guard.session("s"):
        client.messages.create(**CALL | {"messages": asked})
        client.messages.create(**CALL | {"messages": asked})
    assert [last_said(request) for request in provider.requests] == [NUDGE, "How are you?"]
    assert asked == ASK


def test_it_stands_before_an_answer_that_the_model_is_to_continue(provider: FakeProvider, guard: Watched) -> None:
    guard.publish(nudge("session:s", NUDGE))
    begun = {"role": "assistant", "content": "I am"}
    with guard.session("s"):
        sync_client(guard).messages.create(**CALL | {"messages": [*ASK, begun]})
    assert provider.requests[0].body["messages"] == [*ASK, {"role": "user", "content": NUDGE}, begun]


def test_a_client_is_wrapped_once_and_given_back(provider: FakeProvider, guard: Watched) -> None:
    client = anthropic.Anthropic()
    assert wrap_anthropic(wrap_anthropic(client, guard), guard) is client
    client.messages.create(**CALL)
    assert guard.counters.checks == 1


def test_the_drop_in_caps_its_session_and_tells_cost_and_steps(provider: FakeProvider, guard: Watched) -> None:
    client: Any = Anthropic(guard=guard, session_id="run-42", session_budget=5.00, max_steps=2)
    client.messages.create(**CALL)
    message = client.with_options(timeout=5).messages.create(**CALL)
    assert (message.spanfuse_cost > 0, message.spanfuse_session_steps) == (True, 2)
    assert message.spanfuse_session_cost == pytest.approx(2 * message.spanfuse_cost)
    with pytest.raises(Blocked, match=r"limits\.max_steps"):
        client.messages.create(**CALL)
    assert provider.calls == 2


def test_so_does_the_asynchronous_one(provider: FakeProvider, guard: Watched) -> None:
    async def main() -> Any:
        async with AsyncAnthropic(guard=guard, session_id="run-42", max_steps=1) as client:
            message = await client.messages.create(**CALL)
            with pytest.raises(Blocked):
                await client.messages.create(**CALL)
            return message

    assert asyncio.run(main()).spanfuse_session_steps == 1
    assert provider.calls == 1

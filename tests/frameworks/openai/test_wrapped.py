"""OpenAI's own clients under `wrap_openai`, in all the ways in which they make calls."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from spanfuse import Blocked
from spanfuse.integrations import _stainless
from spanfuse.integrations.openai import wrap_openai
from spanfuse.reading.token_usage import field_of
from spanfuse.testing import block, nudge
from tests.frameworks.scripts import NUDGE, SEARCH, last_said
from tests.frameworks.watched import Watched
from tests.support.fake_provider import FakeProvider, Raw, Reply, broken_off, failure

ASK: list[Any] = [{"role": "user", "content": "How are you?"}]
CHAT: dict[str, Any] = {"model": "gpt-4o-mini", "messages": ASK}
RESPOND: dict[str, Any] = {"model": "gpt-4o-mini", "input": "How are you?"}
EMBED: dict[str, Any] = {"model": "text-embedding-3-small", "input": "How are you?"}
USAGE: dict[str, Any] = {"stream_options": {"include_usage": True}}


class Mood(BaseModel):
    mood: str


def helper(client: openai.OpenAI) -> Any:
    with client.beta.chat.completions.stream(**CHAT, **USAGE) as stream:
        return stream.get_final_completion()


def responses_helper(client: openai.OpenAI) -> Any:
    with client.responses.stream(**RESPOND) as stream:
        return stream.get_final_response()


def raw_lines(client: openai.OpenAI) -> Any:
    with client.chat.completions.with_streaming_response.create(**CHAT, **USAGE, stream=True) as response:
        return list(response.iter_lines())


def raw_whole(client: openai.OpenAI) -> Any:
    with client.chat.completions.with_streaming_response.create(**CHAT) as response:
        return response.json()


WAYS: dict[str, Callable[[openai.OpenAI], Any]] = {
    "chat": lambda c: c.chat.completions.create(**CHAT),
    "chat stream": lambda c: list(c.chat.completions.create(**CHAT, **USAGE, stream=True)),
    "chat helper": helper,
    "chat parse": lambda c: c.beta.chat.completions.parse(**CHAT, response_format=Mood),
    "chat raw": lambda c: c.chat.completions.with_raw_response.create(**CHAT).parse(),
    "chat raw stream": lambda c: list(
        c.chat.completions.with_raw_response.create(**CHAT, **USAGE, stream=True).parse()
    ),
    "chat raw lines": raw_lines,
    "chat raw whole": raw_whole,
    "client raw": lambda c: c.with_raw_response.chat.completions.create(**CHAT),
    "chat of a copy": lambda c: c.with_options(timeout=5).copy(max_retries=0).chat.completions.create(**CHAT),
    "chat by hand": lambda c: c.post("/chat/completions", body=CHAT, cast_to=object),
    "responses": lambda c: c.responses.create(**RESPOND),
    "responses stream": lambda c: list(c.responses.create(**RESPOND, stream=True)),
    "responses helper": responses_helper,
    "completions": lambda c: c.completions.create(model="gpt-3.5-turbo-instruct", prompt="How are you?"),
    "embeddings": lambda c: c.embeddings.create(**EMBED),
}


async def ahelper(client: openai.AsyncOpenAI) -> Any:
    async with client.beta.chat.completions.stream(**CHAT, **USAGE) as stream:
        return await stream.get_final_completion()


async def astream(client: openai.AsyncOpenAI) -> Any:
    return [chunk async for chunk in await client.chat.completions.create(**CHAT, **USAGE, stream=True)]


async def aresponses_stream(client: openai.AsyncOpenAI) -> Any:
    return [event async for event in await client.responses.create(**RESPOND, stream=True)]


async def araw_lines(client: openai.AsyncOpenAI) -> Any:
    async with client.chat.completions.with_streaming_response.create(**CHAT, **USAGE, stream=True) as response:
        return [line async for line in response.iter_lines()]


AWAYS: dict[str, Callable[[openai.AsyncOpenAI], Any]] = {
    "chat": lambda c: c.chat.completions.create(**CHAT),
    "chat stream": astream,
    "chat helper": ahelper,
    "chat raw": lambda c: c.chat.completions.with_raw_response.create(**CHAT),
    "chat raw lines": araw_lines,
    "chat of a copy": lambda c: c.with_options(timeout=5).chat.completions.create(**CHAT),
    "responses": lambda c: c.responses.create(**RESPOND),
    "responses stream": aresponses_stream,
    "embeddings": lambda c: c.embeddings.create(**EMBED),
}


def sync_client(guard: Watched, **settings: Any) -> openai.OpenAI:
    return wrap_openai(openai.OpenAI(**settings), guard)


def in_a_loop(guard: Watched, use: Callable[[openai.AsyncOpenAI], Any], **settings: Any) -> Any:
    async def main() -> Any:
        async with openai.AsyncOpenAI(**settings) as client:
            return await use(wrap_openai(client, guard))

    return asyncio.run(main())


def said(provider: FakeProvider, way: str) -> None:
    """Make the provider answer in the form that is asked for."""
    if way == "chat parse":
        provider.script(Reply('{"mood": "well"}'))


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_calling_counts_once_and_tells_what_it_took(
    provider: FakeProvider, guard: Watched, way: str
) -> None:
    said(provider, way)
    with guard.session("s", agent="planner"):
        WAYS[way](sync_client(guard))
    (call,) = guard.calls
    assert (call.who.session, call.who.agent, call.asked.provider) == ("s", "planner", "openai")
    assert call.asked.model in (CHAT["model"], EMBED["model"], "gpt-3.5-turbo-instruct")
    assert guard.tokens == [(12, 0 if way == "embeddings" else 5)]
    assert (provider.calls, call.error, guard.counters.errors) == (1, None, 0)


@pytest.mark.parametrize("way", AWAYS)
def test_so_does_every_asynchronous_way(provider: FakeProvider, guard: Watched, way: str) -> None:
    with guard.session("s"):
        in_a_loop(guard, AWAYS[way])
    (call,) = guard.calls
    assert call.who.session == "s"
    assert guard.tokens == [(12, 0 if way == "embeddings" else 5)]
    assert (provider.calls, call.error, guard.counters.errors) == (1, None, 0)


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
    provider.script(failure(500, retry_after="0"), failure(429, retry_after="0"))
    with guard.session("s"):
        sync_client(guard, max_retries=3).chat.completions.create(**CHAT)
    assert (provider.calls, guard.counters.checks, guard.spent("s").steps) == (3, 1, 1)


def test_what_the_provider_refuses_is_a_failure_that_costs_nothing(provider: FakeProvider, guard: Watched) -> None:
    provider.script(failure(400, "no such model"))
    with guard.session("s"), pytest.raises(openai.BadRequestError, match="no such model"):
        sync_client(guard).chat.completions.create(**CHAT)
    (call,) = guard.calls
    assert isinstance(call.error, openai.BadRequestError)
    assert guard.spent("s").cost_usd == 0


def test_a_stream_that_is_left_early_is_charged_what_came(provider: FakeProvider, guard: Watched) -> None:
    client = sync_client(guard)
    provider.script(Reply("one two three four"))
    with guard.session("s"):
        for chunk in client.chat.completions.create(**CHAT, stream=True):
            if chunk.choices[0].delta.content == "two ":
                break
        del chunk
        gc.collect()
    (call,) = guard.calls
    assert call.error is None
    assert str(guard.said[0]).startswith("one two")


def test_a_stream_that_tells_no_usage_is_charged_by_its_size(provider: FakeProvider, guard: Watched) -> None:
    client = sync_client(guard)
    asked: list[Any] = [{"role": "user", "content": "word " * 400}]
    with guard.session("s"):
        list(client.chat.completions.create(model="gpt-4o-mini", messages=asked, stream=True))
    assert 500 <= guard.spent("s").tokens <= 520


@pytest.mark.parametrize("leave", ["close", "with", "exception"])
def test_a_stream_ends_when_it_is_closed(provider: FakeProvider, guard: Watched, leave: str) -> None:
    stream = sync_client(guard).chat.completions.create(**CHAT, stream=True)
    next(iter(stream))
    assert guard.calls == []
    if leave == "close":
        stream.close()
    elif leave == "with":
        with stream:
            pass
    else:
        with pytest.raises(ZeroDivisionError), stream:
            raise ZeroDivisionError
    assert len(guard.calls) == 1


def test_an_asynchronous_stream_ends_when_it_is_closed(provider: FakeProvider, guard: Watched) -> None:
    async def use(client: openai.AsyncOpenAI) -> int:
        stream = await client.chat.completions.create(**CHAT, stream=True)
        await anext(aiter(stream))
        begun = len(guard.calls)
        await stream.close()
        return begun

    assert in_a_loop(guard, use) == 0
    assert len(guard.calls) == 1


def test_a_stream_that_is_never_read_ends_with_its_object(provider: FakeProvider, guard: Watched) -> None:
    sync_client(guard).chat.completions.create(**CHAT, stream=True)
    gc.collect()
    assert len(guard.calls) == 1


def test_a_connection_that_is_lost_in_a_stream_is_a_failure(provider: FakeProvider, guard: Watched) -> None:
    provider.script(broken_off(reply=Reply("one two three"), after=3))
    with pytest.raises(Exception, match=r"peer closed|incomplete|Connection"):
        list(sync_client(guard).chat.completions.create(**CHAT, stream=True))
    (call,) = guard.calls
    assert call.error is not None
    assert guard.said == ["one two "]


def test_an_error_that_a_stream_tells_of_is_a_failure(provider: FakeProvider, guard: Watched) -> None:
    told = b'data: {"error": {"message": "overloaded", "type": "server_error"}}\n\n'
    provider.script(Raw(200, [told], {"content-type": "text/event-stream"}))
    with pytest.raises(openai.APIError, match="overloaded"):
        list(sync_client(guard).chat.completions.create(**CHAT, stream=True))
    assert "overloaded" in str(guard.calls[0].error)


def test_a_nudge_is_added_to_a_copy_of_the_messages_once(provider: FakeProvider, guard: Watched) -> None:
    guard.publish(nudge("session:s", NUDGE))
    client, asked = sync_client(guard), list(ASK)
    with guard.session("s"):
        client.chat.completions.create(model="gpt-4o-mini", messages=asked)
        client.chat.completions.create(model="gpt-4o-mini", messages=asked)
    assert [last_said(request) for request in provider.requests] == [NUDGE, "How are you?"]
    assert asked == ASK


@pytest.mark.parametrize("given", ["How are you?", ASK], ids=["text", "items"])
def test_so_it_is_for_responses(provider: FakeProvider, guard: Watched, given: Any) -> None:
    guard.publish(nudge("session:s", NUDGE))
    with guard.session("s"):
        sync_client(guard).responses.create(model="gpt-4o-mini", input=given)
    assert provider.requests[0].body["input"] == [*ASK, {"role": "user", "content": NUDGE}]


def test_a_nudge_waits_for_a_call_that_can_be_told(provider: FakeProvider, guard: Watched) -> None:
    """An embedding cannot; a prompt can."""
    guard.publish(nudge("session:s", NUDGE))
    client = sync_client(guard)
    with guard.session("s"):
        client.embeddings.create(**EMBED)
        client.completions.create(model="gpt-3.5-turbo-instruct", prompt="How are you?")
    assert provider.requests[0].body["input"] == EMBED["input"]
    assert provider.requests[1].body["prompt"] == f"How are you?\n\n{NUDGE}"


def test_what_calls_no_model_passes(provider: FakeProvider, guard: Watched) -> None:
    guard.publish(block("session:s"))
    with guard.session("s"):
        assert [model.id for model in sync_client(guard).models.list()] == ["fake-1"]


def test_a_call_inside_a_call_is_the_same_call(provider: FakeProvider, guard: Watched) -> None:
    client = sync_client(guard)
    with guard.session("s"), guard.call(model="gpt-4o-mini") as call:
        call.answered(client.chat.completions.create(**CHAT))
    assert guard.spent("s").steps == 1
    assert len(guard.calls) == 1


def test_a_client_is_wrapped_once_and_given_back(provider: FakeProvider, guard: Watched) -> None:
    client = openai.OpenAI()
    assert wrap_openai(wrap_openai(client, guard), guard) is client
    client.chat.completions.create(**CHAT)
    assert guard.counters.checks == 1


def test_resources_that_were_taken_before_are_guarded_as_well(provider: FakeProvider, guard: Watched) -> None:
    client = openai.OpenAI()
    create, raw = client.chat.completions.create, client.with_raw_response
    wrap_openai(client, guard)
    create(**CHAT)
    raw.chat.completions.create(**CHAT)
    assert guard.counters.checks == 2


def test_azure_is_guarded_under_its_own_name(
    provider: FakeProvider, guard: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL")
    azure = openai.AzureOpenAI(azure_endpoint=provider.url, api_key="k", api_version="2024-06-01", max_retries=0)
    client = wrap_openai(azure, guard).with_options(timeout=5)
    with guard.session("s"):
        with pytest.raises(openai.NotFoundError):  # the fake knows no path of Azure's
            client.chat.completions.create(**CHAT)
        assert provider.requests[0].path.endswith("/deployments/gpt-4o-mini/chat/completions")
        guard.publish(block("session:s"))
        with pytest.raises(Blocked):
            client.chat.completions.create(**CHAT)
    assert provider.calls == 1
    assert guard.calls[0].asked.provider == "azure.ai.openai"


def test_a_failure_of_ours_lets_the_call_pass(
    provider: FakeProvider, guard: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        raise RuntimeError("a bug")

    monkeypatch.setattr(_stainless, "read", fails)
    monkeypatch.setattr(_stainless, "tap", fails)
    client = sync_client(guard)
    assert client.chat.completions.create(**CHAT).choices[0].message.content == "All is well."
    assert len(list(client.chat.completions.create(**CHAT, stream=True))) > 1
    assert guard.counters.errors >= 2
    assert len(guard.calls) == 2


def test_a_task_that_is_cancelled_in_a_stream_ends_its_call(provider: FakeProvider, guard: Watched) -> None:
    async def use(client: openai.AsyncOpenAI) -> None:
        reading = asyncio.Event()

        async def read() -> None:
            async for _ in await client.chat.completions.create(**CHAT, stream=True):
                reading.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(read())
        await reading.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    in_a_loop(guard, use)
    assert len(guard.calls) == 1


def test_a_conversation_that_the_provider_keeps_is_shown_to_the_guard(provider: FakeProvider, guard: Watched) -> None:
    client = sync_client(guard)
    provider.script(SEARCH)
    first = client.responses.create(**RESPOND)
    result = {"type": "function_call_output", "call_id": first.output[0].call_id, "output": "nothing found"}
    wrap_openai(openai.OpenAI(), guard).responses.create(
        model="gpt-4o-mini",
        previous_response_id=first.id,
        input=[result],  # type: ignore[list-item]
    )
    shown = guard.calls[1].asked.messages
    assert [field_of(item, "type") for item in shown] == ["function_call", "function_call_output"]
    assert provider.requests[1].body["input"] == [result]


def test_what_goes_along_as_extra_body_is_seen_and_nudged_as_well(provider: FakeProvider, guard: Watched) -> None:
    guard.publish(nudge("session:s", NUDGE))
    with guard.session("s"):
        sync_client(guard).chat.completions.create(model="gpt-4o-mini", messages=[], extra_body={"messages": ASK})
    assert guard.calls[0].messages == ASK
    assert last_said(provider.requests[0]) == NUDGE

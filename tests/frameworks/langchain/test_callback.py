"""LangChain's models under `GuardCallback`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from spanfuse import Blocked
from spanfuse.integrations._langchain_messages import as_dict
from spanfuse.integrations.langchain import GuardCallback
from spanfuse.integrations.openai import wrap_openai
from spanfuse.reading.messages import read_actions
from spanfuse.testing import block
from tests.frameworks.scripts import SEARCH
from tests.frameworks.watched import Watched
from tests.support.fake_provider import FakeProvider, Reply, failure

ASK = "How are you?"
Ways = dict[str, Callable[[], Any]]


def model(**settings: Any) -> ChatOpenAI:
    return ChatOpenAI(model="gpt-4o-mini", max_retries=0, stream_usage=True, **settings)


def under(guard: Watched) -> Any:
    return {"callbacks": [GuardCallback(guard)]}


async def collected(stream: Any) -> str:
    return "".join([chunk.content async for chunk in stream])


@tool
def search(query: str) -> str:
    """Search."""
    return "nothing"


def test_a_call_is_counted_with_its_answer_and_what_it_took(provider: FakeProvider, guard: Watched) -> None:
    with guard.session("s"):
        assert model().invoke(ASK, config=under(guard)).content == "All is well."
    (call,) = guard.calls
    assert (call.who.session, call.asked.model, call.asked.provider) == ("s", "gpt-4o-mini", "openai")
    assert call.asked.messages == [{"role": "user", "content": ASK}]
    assert guard.said == ["All is well."]
    assert guard.tokens == [(12, 5)]


@pytest.mark.parametrize("way", ["invoke", "stream", "ainvoke", "astream"])
def test_every_way_of_calling_counts_once(provider: FakeProvider, guard: Watched, way: str) -> None:
    ways: Ways = {
        "invoke": lambda: model().invoke(ASK, config=under(guard)).content,
        "stream": lambda: "".join(chunk.content for chunk in model().stream(ASK, config=under(guard))),
        "ainvoke": lambda: asyncio.run(model().ainvoke(ASK, config=under(guard))).content,
        "astream": lambda: asyncio.run(collected(model().astream(ASK, config=under(guard)))),
    }
    with guard.session("s"):
        assert ways[way]() == "All is well."
    assert guard.said == ["All is well."]
    assert guard.tokens == [(12, 5)]
    assert guard.spent("s").steps == 1


@pytest.mark.parametrize("way", ["invoke", "stream", "ainvoke", "astream", "batch", "abatch"])
def test_a_call_that_is_refused_never_leaves_the_process(provider: FakeProvider, guard: Watched, way: str) -> None:
    guard.publish(block("session:s", message="the same step three times"))
    ways: Ways = {
        "invoke": lambda: model().invoke(ASK, config=under(guard)),
        "stream": lambda: list(model().stream(ASK, config=under(guard))),
        "ainvoke": lambda: asyncio.run(model().ainvoke(ASK, config=under(guard))),
        "astream": lambda: asyncio.run(collected(model().astream(ASK, config=under(guard)))),
        "batch": lambda: model().batch([ASK, ASK], config=under(guard)),
        "abatch": lambda: asyncio.run(model().abatch([ASK, ASK], config=under(guard))),
    }
    with guard.session("s"), pytest.raises(Blocked, match="the same step three times") as refused:
        ways[way]()
    assert refused.value.key == "session:s"
    assert provider.calls == 0


def test_retries_and_fallbacks_are_refused_as_well(provider: FakeProvider, guard: Watched) -> None:
    guard.publish(block("session:s"))
    patient = model().with_retry(stop_after_attempt=3, wait_exponential_jitter=False)
    chain = patient.with_fallbacks([model()])
    with guard.session("s"), pytest.raises(Blocked):
        chain.invoke(ASK, config=under(guard))
    assert provider.calls == 0


def test_what_is_answered_during_a_stream_is_a_call_of_its_own(provider: FakeProvider, guard: Watched) -> None:
    with guard.session("s"):
        for _ in model().stream(ASK, config=under(guard)):
            model().invoke(ASK, config=under(guard))
            break
    assert guard.spent("s").steps == 2


def test_a_call_that_fails_is_over(provider: FakeProvider, guard: Watched) -> None:
    provider.default = failure(500)
    with guard.session("s"), pytest.raises(Exception, match="500"):
        model().invoke(ASK, config=under(guard))
    assert [call.error is not None for call in guard.calls] == [True]


def test_a_conversation_with_tools_is_told_as_openai_would(provider: FakeProvider, guard: Watched) -> None:
    provider.script(SEARCH)
    with guard.session("s"):
        first = model().bind_tools([search]).invoke(ASK, config=under(guard))
        told = search.invoke(first.tool_calls[0], config=under(guard))
        model().bind_tools([search]).invoke([("user", ASK), first, told], config=under(guard))
    called, second = guard.calls
    assert called.answer is not None
    assert called.answer.reply is not None
    assert called.answer.reply[0]["tool_calls"][0]["name"] == "search"
    assert [m["role"] for m in second.asked.messages] == ["user", "assistant", "tool"]
    assert [(t.name, t.arguments, t.brought) for t in guard.executed] == [("search", {"query": "spanfuse"}, "nothing")]
    assert second.asked.tools


def test_calls_of_tools_among_the_content_are_told_once() -> None:
    """As Anthropic's models say them: as parts of the content and as calls."""
    called = {"type": "tool_use", "id": "t1", "name": "search", "input": {"query": "spanfuse"}}
    said = AIMessage(
        [{"type": "text", "text": "I will look."}, called],
        tool_calls=[{"name": "search", "args": {"query": "spanfuse"}, "id": "t1", "type": "tool_call"}],
    )
    alone = read_actions([{"role": "assistant", "content": [called]}])
    assert [(a.tool, a.print) for a in read_actions([as_dict(said)])] == [(a.tool, a.print) for a in alone]


def test_a_stream_that_is_left_is_over_and_what_came_of_it_is_charged(provider: FakeProvider, guard: Watched) -> None:
    provider.default = Reply("word " * 200)
    with guard.session("s"):
        stream = model().stream(ASK, config=under(guard))
        for _ in range(20):
            next(stream)
        stream.close()
    (call,) = guard.calls
    assert call.error is not None
    assert call.due is not None
    assert call.due.tokens > 10


def test_what_no_session_is_named_for_is_one_per_run(provider: FakeProvider, guard: Watched) -> None:
    provider.default = Reply("ok")
    chain = model() | (lambda message: message.content) | model()
    for _ in range(2):
        chain.invoke(ASK, config=under(guard))
    sessions = [call.who.session for call in guard.calls]
    assert sessions[0] == sessions[1] != sessions[2] == sessions[3]
    assert None not in sessions


@pytest.mark.parametrize("way", ["invoke", "stream", "ainvoke", "astream"])
def test_a_call_through_a_client_that_is_guarded_as_well_counts_once(
    provider: FakeProvider, guard: Watched, way: str
) -> None:
    def guarded() -> ChatOpenAI:
        made = model()
        wrap_openai(made.root_client, guard)
        wrap_openai(made.root_async_client, guard)
        return made

    ways: Ways = {
        "invoke": lambda: guarded().invoke(ASK, config=under(guard)).content,
        "stream": lambda: "".join(chunk.content for chunk in guarded().stream(ASK, config=under(guard))),
        "ainvoke": lambda: asyncio.run(guarded().ainvoke(ASK, config=under(guard))).content,
        "astream": lambda: asyncio.run(collected(guarded().astream(ASK, config=under(guard)))),
    }
    with guard.session("s"):
        assert ways[way]() == "All is well."
    assert guard.spent("s").steps == 1
    assert guard.tokens == [(12, 5)]

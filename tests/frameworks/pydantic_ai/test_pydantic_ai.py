"""Agents of Pydantic AI, whose model and tools are guarded."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelRetry
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.toolsets import FunctionToolset

from spanfuse import Blocked
from spanfuse.integrations.pydantic_ai import GuardedModel, GuardedToolset
from spanfuse.testing import block, nudge
from spanfuse.tools.policy import ToolPolicy
from tests.frameworks.scripts import DONE, NUDGE, SEARCH, last_said, read_alike
from tests.frameworks.watched import Watched
from tests.support.fake_provider import FakeProvider

ASK = "Find spanfuse."
ran: list[str] = []


def search(query: str) -> str:
    """Search."""
    ran.append(query)
    return "nothing"


def wrapped(guard: Watched, model: Any = OpenAIChatModel) -> Agent[None, str]:
    tools = GuardedToolset(FunctionToolset([search]), guard)
    return Agent(GuardedModel(model("gpt-4o-mini"), guard), toolsets=[tools], instructions="Be brief.")


def with_responses(guard: Watched) -> Agent[None, str]:
    return wrapped(guard, OpenAIResponsesModel)


def capable(guard: Watched) -> Agent[None, str]:
    from spanfuse.integrations.pydantic_ai import GuardCapability

    model = OpenAIChatModel("gpt-4o-mini")
    return Agent(model, tools=[search], capabilities=[GuardCapability(guard)], instructions="Be brief.")


def whole(agent: Agent[None, str]) -> Any:
    return asyncio.run(agent.run(ASK)).output


def synchronous(agent: Agent[None, str]) -> Any:
    return agent.run_sync(ASK).output


def streamed(agent: Agent[None, str]) -> str:
    async def run() -> str:
        async with agent.run_stream(ASK) as result:
            return "".join([text async for text in result.stream_text(delta=True)])

    return asyncio.run(run())


needs_2 = pytest.mark.skipif(not importlib.util.find_spec("pydantic_ai.capabilities"), reason="needs Pydantic AI 2")
Made = Callable[[Watched], Agent[None, str]]
Way = Callable[[Agent[None, str]], Any]
MADE = pytest.mark.parametrize("made", [wrapped, with_responses, pytest.param(capable, marks=needs_2)])
WAYS = pytest.mark.parametrize("way", [whole, synchronous, streamed])


@MADE
@WAYS
def test_each_call_counts_once_with_its_answer_and_what_it_took(
    provider: FakeProvider, guard: Watched, made: Made, way: Way
) -> None:
    provider.script(SEARCH, DONE)
    with guard.session("s"):
        assert way(made(guard)) == "All is well."
    first, second = guard.calls
    assert (first.asked.model, first.asked.provider, first.asked.system) == ("gpt-4o-mini", "openai", "Be brief.")
    assert first.asked.messages == [{"role": "user", "content": ASK}]
    assert [m["role"] for m in second.asked.messages] == ["user", "assistant", "tool"]
    assert first.asked.tools
    assert guard.said == ["", "All is well."]
    assert all(read_alike(call, asked) for call, asked in zip(guard.calls, provider.requests, strict=True))
    assert guard.tokens == [(12, 5), (12, 5)]
    assert [(t.name, t.arguments, t.brought) for t in guard.executed] == [("search", {"query": "spanfuse"}, "nothing")]


@MADE
@WAYS
def test_an_agent_is_stopped_at_its_step(provider: FakeProvider, guard: Watched, made: Made, way: Way) -> None:
    provider.default = SEARCH
    with guard.session("s", max_steps=3), pytest.raises(Blocked) as refused:
        way(made(guard))
    assert refused.value.rule == "limits.max_steps"
    assert provider.calls == 3
    assert len(guard.executed) == 3


@MADE
@WAYS
def test_an_agent_that_is_refused_calls_nobody(provider: FakeProvider, guard: Watched, made: Made, way: Way) -> None:
    guard.publish(block("session:s", message="the same step three times"))
    with guard.session("s"), pytest.raises(Blocked, match=r"session:s is blocked by repeat.no_progress: the same step"):
        way(made(guard))
    assert provider.calls == 0


@WAYS
def test_no_fallback_is_tried_for_a_refusal(provider: FakeProvider, guard: Watched, way: Way) -> None:
    guard.publish(block("session:s"))
    model = GuardedModel(OpenAIChatModel("gpt-4o-mini"), guard)
    with guard.session("s"), pytest.raises(Blocked):
        way(Agent(FallbackModel(model, OpenAIChatModel("gpt-4o")), retries=3))
    assert provider.calls == 0


@MADE
def test_a_nudge_is_the_last_message_of_one_call(provider: FakeProvider, guard: Watched, made: Made) -> None:
    provider.script(SEARCH, DONE)
    guard.publish(nudge("session:s", NUDGE))
    with guard.session("s"):
        whole(made(guard))
    assert [last_said(asked) for asked in provider.requests] == [NUDGE, "nothing"]


@MADE
def test_a_tool_that_is_denied_is_not_executed_and_the_model_is_told_why(provider: FakeProvider, made: Made) -> None:
    ran.clear()
    provider.script(SEARCH, DONE)
    with Watched(tools=ToolPolicy().deny("search", reason="Ask a librarian.")) as guard, guard.session("s"):
        assert whole(made(guard)) == "All is well."
    assert ran == []
    assert "Ask a librarian" in last_said(provider.requests[1])


def test_a_tool_that_fails_is_over_and_its_failure_is_told(provider: FakeProvider, guard: Watched) -> None:
    def search(query: str) -> str:
        raise ModelRetry("Search for something else.")

    provider.script(SEARCH, DONE)
    tools = GuardedToolset(FunctionToolset([search]), guard)
    with guard.session("s"):
        whole(Agent(GuardedModel(OpenAIChatModel("gpt-4o-mini"), guard), toolsets=[tools]))
    assert guard.executed[0].error is not None
    assert guard.calls[1].asked.messages[-1]["is_error"] is True


@MADE
def test_what_no_session_is_named_for_is_one_per_run(provider: FakeProvider, guard: Watched, made: Made) -> None:
    agent = made(guard)
    for _ in range(2):
        provider.script(SEARCH, DONE)
        synchronous(agent)  # in one event loop, whose connections the model keeps
    sessions = [call.who.session for call in guard.calls]
    assert sessions[0] == sessions[1] != sessions[2] == sessions[3]
    assert None not in sessions
    assert [t.who.session for t in guard.executed] == [sessions[0], sessions[2]]


def test_a_stream_that_is_left_is_over(provider: FakeProvider, guard: Watched) -> None:
    async def run() -> None:
        async with wrapped(guard).run_stream(ASK) as result:
            async for _ in result.stream_text(delta=True):
                break

    with guard.session("s"):
        asyncio.run(run())
    assert len(guard.calls) == 1


@MADE
@WAYS
def test_an_agent_that_does_the_same_again_and_again_is_stopped_without_a_server(
    provider: FakeProvider, local: Watched, made: Made, way: Way
) -> None:
    """After the third result that brings nothing new, though the session has no name."""
    provider.default = SEARCH
    with pytest.raises(Blocked, match=r"search. was called 3 times with the same arguments and the same result"):
        way(made(local))
    assert provider.calls == 3
    assert len(local.executed) == 3

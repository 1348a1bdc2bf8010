"""Agents of OpenAI's Agents SDK, whose models come from `GuardedProvider`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import agents
import openai
import pytest
from agents import Agent, ModelSettings, OpenAIProvider, RunConfig, Runner, function_tool
from agents.models.openai_chatcompletions import OpenAIChatCompletionsModel

from spanfuse import Blocked
from spanfuse.integrations.openai import wrap_openai
from spanfuse.integrations.openai_agents import GuardedModel, GuardedProvider
from spanfuse.testing import block, nudge
from spanfuse.tools.policy import ToolPolicy
from tests.frameworks.scripts import DONE, NUDGE, SEARCH, last_said, read_alike
from tests.frameworks.watched import Watched
from tests.support.fake_provider import FakeProvider

ASK = "Find spanfuse."


@pytest.fixture(autouse=True)
def untraced() -> None:
    """Traces are made, and go nowhere."""
    agents.set_trace_processors([])


@function_tool
def search(query: str) -> str:
    """Search."""
    return "nothing"


def agent(**settings: Any) -> Agent[None]:
    @function_tool(name_override="search")
    def tool(query: str) -> str:
        return "nothing"

    # A chat's stream tells what it took where it is asked to: at api.openai.com it is by default.
    given = ModelSettings(include_usage=True, **settings)
    return Agent(name="finder", instructions="Be brief.", tools=[tool], model="gpt-4o-mini", model_settings=given)


def config(provider: FakeProvider, guard: Watched, *, responses: bool = True, **settings: Any) -> RunConfig:
    client = openai.AsyncOpenAI(base_url=provider.openai_url, max_retries=0)
    models = OpenAIProvider(openai_client=client, use_responses=responses)
    return RunConfig(model_provider=GuardedProvider(guard, models), **settings)


def whole(given: Agent[None], config: RunConfig) -> Any:
    return asyncio.run(Runner.run(given, ASK, run_config=config)).final_output


def streamed(given: Agent[None], config: RunConfig) -> Any:
    async def run() -> Any:
        result = Runner.run_streamed(given, ASK, run_config=config)
        async for _ in result.stream_events():
            pass
        return result.final_output

    return asyncio.run(run())


def synchronous(given: Agent[None], config: RunConfig) -> Any:
    return Runner.run_sync(given, ASK, run_config=config).final_output


Way = Callable[[Agent[None], RunConfig], Any]
WAYS = pytest.mark.parametrize("way", [whole, streamed, synchronous])
APIS = pytest.mark.parametrize("responses", [True, False], ids=["responses", "chat"])


@APIS
@WAYS
def test_each_call_counts_once_with_its_answer_and_what_it_took(
    provider: FakeProvider, guard: Watched, way: Way, responses: bool
) -> None:
    provider.script(SEARCH, DONE)
    with guard.session("s"):
        assert way(agent(), config(provider, guard, responses=responses)) == "All is well."
    first, second = guard.calls
    assert [c.who.session for c in guard.calls] == ["s", "s"]
    assert {c.who.agent for c in guard.calls} == {"finder"}
    assert first.asked.model == "gpt-4o-mini"
    assert first.asked.system == "Be brief."
    assert first.asked.tools
    assert guard.tokens == [(12, 5), (12, 5)]
    assert all(read_alike(call, asked) for call, asked in zip(guard.calls, provider.requests, strict=True))
    assert second.answer is not None
    assert [(t.name, t.arguments, t.brought) for t in guard.executed] == [("search", {"query": "spanfuse"}, "nothing")]


@APIS
@WAYS
def test_an_agent_is_stopped_at_its_step(provider: FakeProvider, guard: Watched, way: Way, responses: bool) -> None:
    provider.default = SEARCH
    with guard.session("s", max_steps=3), pytest.raises(Blocked) as refused:
        way(agent(), config(provider, guard, responses=responses))
    assert refused.value.rule == "limits.max_steps"
    assert provider.calls == 3
    assert len(guard.executed) == 3


@WAYS
def test_an_agent_that_is_refused_calls_nobody(provider: FakeProvider, guard: Watched, way: Way) -> None:
    guard.publish(block("session:s", message="the same step three times"))
    with guard.session("s"), pytest.raises(Blocked, match=r"session:s is blocked by repeat.no_progress: the same step"):
        way(agent(), config(provider, guard))
    assert provider.calls == 0


@WAYS
def test_a_policy_that_retries_everything_does_not_retry_a_refusal(
    provider: FakeProvider, guard: Watched, way: Way
) -> None:
    retry = pytest.importorskip("agents.retry")
    patient = retry.ModelRetrySettings(max_retries=3, policy=lambda context: True)
    guard.publish(block("session:s"))
    with guard.session("s"), pytest.raises(Blocked):
        way(agent(retry=patient), config(provider, guard))
    assert provider.calls == 0
    assert guard.counters.blocked == 1


def test_a_stream_that_is_left_is_over(provider: FakeProvider, guard: Watched) -> None:
    async def run() -> None:
        result = Runner.run_streamed(agent(), ASK, run_config=config(provider, guard))
        async for event in result.stream_events():
            if event.type == "raw_response_event":
                result.cancel()

    with guard.session("s"):
        asyncio.run(run())
    assert len(guard.calls) == 1


@APIS
def test_a_nudge_is_the_last_message_of_one_call(provider: FakeProvider, guard: Watched, responses: bool) -> None:
    provider.script(SEARCH, DONE)
    guard.publish(nudge("session:s", NUDGE))
    with guard.session("s"):
        whole(agent(), config(provider, guard, responses=responses))
    assert [last_said(asked) for asked in provider.requests] == [NUDGE, "nothing"]


def test_a_tool_that_is_denied_is_not_executed_and_the_model_is_told_why(provider: FakeProvider) -> None:
    ran = []

    @function_tool(name_override="search")
    def denied(query: str) -> str:
        ran.append(query)
        return "nothing"

    policy = ToolPolicy().deny("search", reason="Ask a librarian.")
    provider.script(SEARCH, DONE)
    with Watched(tools=policy) as guard, guard.session("s"):
        finder = Agent(name="finder", tools=[denied], model="gpt-4o-mini")
        assert whole(finder, config(provider, guard)) == "All is well."
    assert ran == []
    assert "Ask a librarian" in last_said(provider.requests[1])


def test_a_model_of_the_agents_own_is_guarded_as_well(provider: FakeProvider, guard: Watched) -> None:
    client = openai.AsyncOpenAI(base_url=provider.openai_url, max_retries=0)
    model = GuardedModel(OpenAIChatCompletionsModel("gpt-4o-mini", client), guard)
    provider.default = SEARCH
    with guard.session("s", max_steps=2), pytest.raises(Blocked):
        asyncio.run(Runner.run(Agent(name="finder", tools=[search], model=model), ASK))
    assert provider.calls == 2


@pytest.mark.parametrize("off", [False, True])
def test_what_no_session_is_named_for_is_one_per_run(provider: FakeProvider, guard: Watched, off: bool) -> None:
    for _ in range(2):
        provider.script(SEARCH, DONE)
        whole(agent(), config(provider, guard, tracing_disabled=off))
    sessions = [call.who.session for call in guard.calls]
    assert sessions[0] == sessions[1] != sessions[2] == sessions[3]
    assert None not in sessions
    assert [t.who.session for t in guard.executed] == [sessions[0], sessions[2]]


def test_what_no_session_is_named_for_is_in_that_of_its_group(provider: FakeProvider, guard: Watched) -> None:
    whole(agent(), config(provider, guard, group_id="chat-1"))
    assert [call.who.session for call in guard.calls] == ["chat-1"]


@WAYS
def test_an_agent_that_does_the_same_again_and_again_is_stopped_without_a_server(
    provider: FakeProvider, local: Watched, way: Way
) -> None:
    """After the third result that brings nothing new, though the session has no name."""
    provider.default = SEARCH
    with pytest.raises(Blocked, match=r"search. was called 3 times with the same arguments and the same result"):
        way(agent(), config(provider, local))
    assert provider.calls == 3
    assert len(local.executed) == 3


@APIS
@WAYS
def test_a_call_through_a_client_that_is_guarded_as_well_counts_once(
    provider: FakeProvider, guard: Watched, way: Way, responses: bool
) -> None:
    client = wrap_openai(openai.AsyncOpenAI(base_url=provider.openai_url, max_retries=0), guard)
    models = OpenAIProvider(openai_client=client, use_responses=responses)
    with guard.session("s"):
        way(agent(), RunConfig(model_provider=GuardedProvider(guard, models)))
    assert guard.spent("s").steps == 1
    assert guard.tokens == [(12, 5)]

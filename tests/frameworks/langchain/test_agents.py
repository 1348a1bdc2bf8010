"""Agents of LangChain and LangGraph, which call a model and tools in turn."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import RetryPolicy

from spanfuse import Blocked
from spanfuse.integrations.langchain import GuardCallback, GuardMiddleware
from spanfuse.testing import block, nudge
from spanfuse.tools import Question, ToolPolicy
from spanfuse.tools.denied import ToolDenied
from tests.frameworks.scripts import DONE, NUDGE, SEARCH, last_said, read_alike
from tests.frameworks.watched import Watched
from tests.support.fake_provider import FakeProvider

ASK = {"messages": [("user", "Find spanfuse.")]}


@tool
def search(query: str) -> str:
    """Search."""
    return "nothing"


def model() -> ChatOpenAI:
    return ChatOpenAI(model="gpt-4o-mini", max_retries=0)


def graph(**node: Any) -> Any:
    """A graph as people write it: a model, its tools, and back."""

    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model().bind_tools([search]).invoke(state["messages"])]}

    made = StateGraph(MessagesState)
    made.add_node("model", ask, **node)
    made.add_node("tools", ToolNode([search]))
    made.add_edge(START, "model")
    made.add_conditional_edges("model", tools_condition)
    made.add_edge("tools", "model")
    return made.compile()


def by_callback(guard: Watched) -> tuple[Any, dict[str, Any]]:
    return graph(), {"callbacks": [GuardCallback(guard)]}


def by_middleware(guard: Watched) -> tuple[Any, dict[str, Any]]:
    return create_agent(model(), [search], middleware=[GuardMiddleware(guard)]), {}


def by_both(guard: Watched) -> tuple[Any, dict[str, Any]]:
    return by_middleware(guard)[0], {"callbacks": [GuardCallback(guard)]}


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "invoke": lambda agent, config: agent.invoke(ASK, config),
    "stream": lambda agent, config: list(agent.stream(ASK, config, stream_mode="messages")),
    "ainvoke": lambda agent, config: asyncio.run(agent.ainvoke(ASK, config)),
    "astream": lambda agent, config: asyncio.run(drained(agent.astream(ASK, config, stream_mode="messages"))),
}


async def drained(stream: Any) -> None:
    async for _ in stream:
        pass


MADE = pytest.mark.parametrize("made", [by_callback, by_middleware, by_both])


@MADE
@pytest.mark.parametrize("way", WAYS)
def test_an_agent_is_stopped_at_its_step(
    provider: FakeProvider, guard: Watched, made: Callable[[Watched], Any], way: str
) -> None:
    provider.default = SEARCH
    agent, config = made(guard)
    with guard.session("s", max_steps=3), pytest.raises(Blocked) as refused:
        WAYS[way](agent, config)
    assert refused.value.rule == "limits.max_steps"
    assert provider.calls == 3
    assert [t.name for t in guard.executed] == ["search"] * 3
    assert all(read_alike(call, asked) for call, asked in zip(guard.calls, provider.requests, strict=True))


@MADE
@pytest.mark.parametrize("way", WAYS)
def test_an_agent_that_is_refused_calls_nobody(
    provider: FakeProvider, guard: Watched, made: Callable[[Watched], Any], way: str
) -> None:
    guard.publish(block("session:s", message="the same step three times"))
    agent, config = made(guard)
    with guard.session("s"), pytest.raises(Blocked, match=r"session:s is blocked by repeat.no_progress: the same step"):
        WAYS[way](agent, config)
    assert provider.calls == 0


def test_a_node_that_retries_is_refused_again(provider: FakeProvider, guard: Watched) -> None:
    guard.publish(block("session:s"))
    patient = RetryPolicy(max_attempts=3, initial_interval=0.001)
    with guard.session("s"), pytest.raises(Blocked):
        graph(retry_policy=patient).invoke(ASK, {"callbacks": [GuardCallback(guard)]})
    assert provider.calls == 0
    assert guard.counters.blocked == 3


def test_no_middleware_keeps_a_refusal_from_the_user(provider: FakeProvider, guard: Watched) -> None:
    class Patient(AgentMiddleware):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            try:
                return handler(request)
            except Exception:
                return handler(request)

    guard.publish(block("session:s"))
    agent = create_agent(model(), [search], middleware=[GuardMiddleware(guard), Patient()])
    with guard.session("s"), pytest.raises(Blocked):
        agent.invoke(ASK)
    assert provider.calls == 0


def test_an_agent_executor_that_forgives_the_model_does_not_forgive_a_refusal(
    provider: FakeProvider, guard: Watched
) -> None:
    classic = pytest.importorskip("langchain_classic.agents")
    from langchain_core.prompts import ChatPromptTemplate

    prompt = ChatPromptTemplate.from_messages([("user", "{input}"), ("placeholder", "{agent_scratchpad}")])
    agent = classic.create_tool_calling_agent(model(), [search], prompt)
    executor = classic.AgentExecutor(agent=agent, tools=[search], handle_parsing_errors=True)
    provider.default = SEARCH
    with guard.session("s", max_steps=2), pytest.raises(Blocked):
        executor.invoke({"input": "Find spanfuse."}, {"callbacks": [GuardCallback(guard)]})
    assert provider.calls == 2


def test_a_nudge_is_the_last_message_of_one_call(provider: FakeProvider, guard: Watched) -> None:
    provider.script(SEARCH, SEARCH, DONE)
    agent, config = by_middleware(guard)
    guard.publish(nudge("session:s", NUDGE))
    with guard.session("s"):
        state = agent.invoke(ASK, config)
    assert [last_said(asked) for asked in provider.requests] == [NUDGE, "nothing", "nothing"]
    assert NUDGE not in [message.content for message in state["messages"]]


def test_what_no_session_is_named_for_is_one_per_thread(provider: FakeProvider, guard: Watched) -> None:
    agent = create_agent(model(), [], middleware=[GuardMiddleware(guard)], checkpointer=InMemorySaver())
    for thread in ("a", "a", "b"):
        agent.invoke(ASK, {"configurable": {"thread_id": thread}})
    assert [call.who.session for call in guard.calls] == ["a", "a", "b"]


def test_what_no_session_and_no_thread_is_named_for_is_one_per_run(provider: FakeProvider, guard: Watched) -> None:
    agent = create_agent(model(), [search], middleware=[GuardMiddleware(guard)])
    for _ in range(2):
        provider.script(SEARCH, DONE)
        agent.invoke(ASK)
    sessions = [call.who.session for call in guard.calls]
    assert sessions[0] == sessions[1] != sessions[2] == sessions[3]
    assert [t.who.session for t in guard.executed] == [sessions[0], sessions[2]]


def denied() -> ToolPolicy:
    return ToolPolicy().deny("search", reason="Ask a librarian.")


@pytest.mark.parametrize("way", WAYS)
def test_a_tool_that_is_denied_answers_the_model_with_the_reason(provider: FakeProvider, way: str) -> None:
    provider.script(SEARCH, DONE)
    with Watched(tools=denied()) as guard, guard.session("s"):
        agent, config = by_middleware(guard)
        WAYS[way](agent, config)
    assert guard.executed == []
    assert "Ask a librarian" in last_said(provider.requests[1])


@pytest.mark.parametrize("way", WAYS)
def test_a_handler_cannot_answer_for_a_tool_that_is_denied_and_raises(provider: FakeProvider, way: str) -> None:
    provider.script(SEARCH, DONE)
    with Watched(tools=denied()) as guard, guard.session("s"):
        agent, config = by_callback(guard)
        with pytest.raises(ToolDenied, match="Ask a librarian"):
            WAYS[way](agent, config)
    assert guard.executed == []
    assert provider.calls == 1


@MADE
@pytest.mark.parametrize("way", WAYS)
def test_an_agent_that_does_the_same_again_and_again_is_stopped_without_a_server(
    provider: FakeProvider, local: Watched, made: Callable[[Watched], Any], way: str
) -> None:
    """After the third result that brings nothing new, though the session has no name."""
    provider.default = SEARCH
    agent, config = made(local)
    with pytest.raises(Blocked, match=r"search. was called 3 times with the same arguments and the same result"):
        WAYS[way](agent, config)
    assert provider.calls == 3
    assert len(local.executed) == 3


@pytest.mark.parametrize("made", [by_callback, by_middleware])
def test_an_event_loop_goes_on_while_somebody_is_asked_about_a_tool(
    provider: FakeProvider, made: Callable[[Watched], Any]
) -> None:
    """Whoever is asked answers only once the loop has gone on."""
    provider.script(SEARCH, DONE)
    opened, went_on = threading.Event(), threading.Event()

    def ask(question: Question) -> bool:
        opened.set()
        return went_on.wait(10)

    async def run(guard: Watched) -> None:
        agent, config = made(guard)
        asked = asyncio.create_task(agent.ainvoke(ASK, config))
        while not opened.is_set():  # noqa: ASYNC110 - a thread sets it
            await asyncio.sleep(0.001)
        went_on.set()
        await asked

    with Watched(tools=ToolPolicy(ask=ask).ask("search")) as guard, guard.session("s"):
        asyncio.run(run(guard))
    assert [t.name for t in guard.executed] == ["search"]

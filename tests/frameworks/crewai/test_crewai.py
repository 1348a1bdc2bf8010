"""Crews of CrewAI, whose models and tools are guarded."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from crewai import LLM, Agent, Crew, Task, hooks
from crewai.tools import tool

from spanfuse import Blocked
from spanfuse.integrations.crewai import guard_tools, wrap_llm
from spanfuse.testing import block, nudge
from spanfuse.tools.policy import ToolPolicy
from tests.frameworks.crewai.replies import CALL, DONE, NEWER
from tests.frameworks.scripts import NUDGE, last_said, read_alike
from tests.frameworks.watched import Watched
from tests.support.fake_provider import FakeProvider

ran: list[str] = []


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """It keeps nothing, and forgets the hooks of the test."""
    monkeypatch.setenv("CREWAI_STORAGE_DIR", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    ran.clear()
    yield
    hooks.clear_all_global_hooks()


@tool("search")
def search(query: str) -> str:
    """Search."""
    ran.append(query)
    return "nothing"


def crew(guard: Watched, **settings: Any) -> Crew:
    llm = wrap_llm(LLM(model="gpt-4o-mini", **settings), guard)
    agent = Agent(role="finder", goal="find", backstory="You find.", llm=llm, tools=[search], cache=False)
    return Crew(agents=[agent], tasks=[Task(description="Find spanfuse.", expected_output="a text", agent=agent)])


def kickoff(guard: Watched) -> Any:
    return crew(guard).kickoff().raw


def streamed(guard: Watched) -> Any:
    return crew(guard, stream=True).kickoff().raw


def in_thread(guard: Watched) -> Any:
    return asyncio.run(crew(guard).kickoff_async()).raw


def asynchronous(guard: Watched) -> Any:
    made = crew(guard)
    if not hasattr(made, "akickoff"):
        pytest.skip("needs a newer CrewAI")
    return asyncio.run(made.akickoff()).raw


Way = Callable[[Watched], Any]
WAYS = pytest.mark.parametrize("way", [kickoff, streamed, in_thread, asynchronous])


@WAYS
def test_each_call_counts_once_with_its_answer_and_what_it_took(
    provider: FakeProvider, guard: Watched, way: Way
) -> None:
    provider.script(CALL, DONE)
    guard_tools(guard)
    with guard.session("s"):
        assert way(guard).endswith("All is well.")
    assert [(c.who.session, c.who.agent, c.asked.model) for c in guard.calls] == [("s", "finder", "gpt-4o-mini")] * 2
    assert all(read_alike(call, asked) for call, asked in zip(guard.calls, provider.requests, strict=True))
    told = NEWER or way is not streamed
    assert guard.tokens == [(12, 5) if told else (None, None)] * 2
    assert [(t.name, t.arguments, t.brought) for t in guard.executed] == [("search", {"query": "spanfuse"}, "nothing")]
    assert guard.spent("s").steps == 2


@WAYS
def test_a_crew_is_stopped_at_its_step(provider: FakeProvider, guard: Watched, way: Way) -> None:
    provider.default = CALL
    with guard.session("s", max_steps=3), pytest.raises(Blocked) as refused:
        way(guard)
    assert refused.value.rule == "limits.max_steps"
    assert provider.calls == 3


@WAYS
def test_a_crew_that_is_refused_calls_nobody(provider: FakeProvider, guard: Watched, way: Way) -> None:
    guard.publish(block("session:s", message="the same step three times"))
    with guard.session("s"), pytest.raises(Blocked, match=r"session:s is blocked by repeat.no_progress: the same step"):
        way(guard)
    assert provider.calls == 0
    assert guard.counters.blocked == (1 if NEWER else 3)


def test_a_refusal_can_be_pickled(provider: FakeProvider, guard: Watched) -> None:
    guard.publish(block("session:s"))
    with guard.session("s"), pytest.raises(Blocked) as refused:
        kickoff(guard)
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)


def test_a_nudge_is_the_last_message_of_one_call(provider: FakeProvider, guard: Watched) -> None:
    provider.script(CALL, DONE)
    guard.publish(nudge("session:s", NUDGE))
    with guard.session("s"):
        kickoff(guard)
    assert [last_said(asked) == NUDGE for asked in provider.requests] == [True, False]


@WAYS
def test_a_tool_that_is_denied_is_not_executed_and_the_model_is_told(provider: FakeProvider, way: Way) -> None:
    provider.script(CALL, DONE)
    with Watched(tools=ToolPolicy().deny("search", reason="Ask a librarian.")) as guard, guard.session("s"):
        guard_tools(guard)
        assert way(guard).endswith("All is well.")
    assert ran == []
    assert guard.executed == []
    said = [str(message["content"]) for message in provider.requests[1].body["messages"]]
    assert any(("Ask a librarian" if NEWER else "Tool execution blocked by hook") in text for text in said)


def test_what_no_session_is_named_for_is_one_per_run(provider: FakeProvider, guard: Watched) -> None:
    guard_tools(guard)
    made = crew(guard)
    for _ in range(2):
        provider.script(CALL, DONE)
        made.kickoff()
    sessions = [call.who.session for call in guard.calls]
    assert sessions[0] == sessions[1] != sessions[2] == sessions[3]
    assert None not in sessions
    assert [t.who.session for t in guard.executed] == [sessions[0], sessions[2]]


def test_a_model_is_guarded_once_and_stays_what_it_was(provider: FakeProvider, guard: Watched) -> None:
    llm = LLM(model="gpt-4o-mini")
    kind = type(llm)
    assert wrap_llm(wrap_llm(llm, guard), guard) is llm
    assert isinstance(llm, kind)
    with guard.session("s"):
        llm.call("How are you?")
    assert len(guard.calls) == 1


@pytest.mark.skipif(not NEWER, reason="it answers calls that repeat by itself, each time in other words")
def test_an_agent_that_does_the_same_again_and_again_is_stopped_without_a_server(
    provider: FakeProvider, local: Watched
) -> None:
    """After the third result that brings nothing new, though the session has no name."""
    provider.default = CALL
    guard_tools(local)
    with pytest.raises(Blocked, match=r"search. was called 3 times with the same arguments and the same result"):
        kickoff(local)
    assert provider.calls == 3
    assert len(local.executed) == 3

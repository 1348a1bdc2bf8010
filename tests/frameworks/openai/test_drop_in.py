"""The drop-in for OpenAI's clients: caps of a session as arguments, cost and steps on each response."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest

from spanfuse import Blocked
from spanfuse.integrations import _bound
from spanfuse.integrations.openai import AsyncOpenAI, OpenAI, wrap_openai
from tests.frameworks.scripts import SEARCH
from tests.frameworks.watched import Watched
from tests.support.fake_provider import FakeProvider

CHAT: dict[str, Any] = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "How are you?"}]}


def test_each_response_tells_its_cost_and_that_of_the_session_and_its_steps(
    provider: FakeProvider, guard: Watched
) -> None:
    client = OpenAI(guard=guard, session_id="run-42", session_budget=5.00, max_steps=20)
    first, second = client.chat.completions.create(**CHAT), client.chat.completions.create(**CHAT)
    assert first.spanfuse_cost == second.spanfuse_cost > 0
    assert second.spanfuse_session_cost == pytest.approx(2 * first.spanfuse_cost)
    assert (first.spanfuse_session_steps, second.spanfuse_session_steps) == (1, 2)
    assert "spanfuse_cost" not in first.model_dump_json()


def test_a_stream_tells_it_at_its_end(provider: FakeProvider, guard: Watched) -> None:
    stream = OpenAI(guard=guard, session_id="run-42").chat.completions.create(**CHAT, stream=True)
    assert len(list(stream)) > 1
    assert (stream.spanfuse_session_steps, stream.spanfuse_cost > 0) == (1, True)


def test_the_steps_are_capped_also_for_copies_of_the_client(provider: FakeProvider, guard: Watched) -> None:
    client = OpenAI(guard=guard, session_id="run-42", max_steps=2)
    client.chat.completions.create(**CHAT)
    client.with_options(timeout=5).responses.create(model="gpt-4o-mini", input="How are you?")
    for again in (client, client.with_options(timeout=5)):
        with pytest.raises(Blocked, match=r"run-42 is blocked by limits\.max_steps"):
            again.chat.completions.create(**CHAT)
    assert provider.calls == 2


def test_so_is_the_budget_with_calls_in_flight(provider: FakeProvider, guard: Watched) -> None:
    client = OpenAI(guard=guard, session_id="run-42", session_budget=0.000001)
    client.chat.completions.create(**CHAT)
    with pytest.raises(Blocked, match=r"budget\.session"):
        client.chat.completions.create(**CHAT)
    assert provider.calls == 1


def test_caps_without_a_session_are_of_one_of_the_clients_own(provider: FakeProvider, guard: Watched) -> None:
    one, other = OpenAI(guard=guard, max_steps=1), OpenAI(guard=guard, max_steps=1)
    one.chat.completions.create(**CHAT)
    other.chat.completions.create(**CHAT)
    with pytest.raises(Blocked):
        one.chat.completions.create(**CHAT)


def test_the_names_given_are_those_of_the_calls(provider: FakeProvider, guard: Watched) -> None:
    client = OpenAI(guard=guard, agent="planner", user="u", team="t")
    with guard.session("s", agent="other"):
        client.chat.completions.create(**CHAT)
    who = guard.calls[0].who
    assert (who.session, who.agent, who.user, who.team) == ("s", "planner", "u", "t")


def test_the_asynchronous_client_is_the_same(provider: FakeProvider, guard: Watched) -> None:
    async def main() -> int:
        async with AsyncOpenAI(guard=guard, session_id="run-42", max_steps=1) as client:
            response = await client.chat.completions.create(**CHAT)
            with pytest.raises(Blocked):
                await client.chat.completions.create(**CHAT)
            steps: int = response.spanfuse_session_steps
            return steps

    assert asyncio.run(main()) == 1
    assert provider.calls == 1


def test_a_cap_that_is_no_number_is_an_error_at_once(provider: FakeProvider, guard: Watched) -> None:
    with pytest.raises(ValueError, match="cap"):
        OpenAI(guard=guard, session_id="s", max_steps=-1)


@pytest.fixture
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Guard was needed so far in this process, and no server is named."""
    monkeypatch.setattr(_bound, "_guard", None)
    monkeypatch.delenv("SPANFUSE_API_URL", raising=False)


def searching(client: OpenAI) -> None:
    """An agent whose model does the same again and again."""
    messages: list[Any] = [{"role": "user", "content": "What is moss?"}]
    for _ in range(20):
        said: Any = client.chat.completions.create(model="gpt-4o-mini", messages=messages).choices[0].message
        messages += [said, {"role": "tool", "tool_call_id": said.tool_calls[0].id, "content": "nothing found"}]


@pytest.mark.usefixtures("unset")
def test_without_a_guard_and_without_a_server_an_agent_that_repeats_itself_is_stopped(provider: FakeProvider) -> None:
    provider.default = SEARCH
    with pytest.raises(Blocked, match="run-42") as refusal:
        searching(OpenAI(session_id="run-42"))
    assert refusal.value.rule.startswith(("repeat", "cycle"))
    assert provider.calls < 10


@pytest.mark.usefixtures("unset")
def test_clients_without_a_guard_share_one(provider: FakeProvider) -> None:
    assert wrap_openai(openai.OpenAI())._spanfuse._bound.guard is OpenAI()._spanfuse._bound.guard  # type: ignore[attr-defined]


@pytest.mark.usefixtures("unset")
def test_the_same_text_may_be_embedded_again_and_again(provider: FakeProvider) -> None:
    client = OpenAI(session_id="run-42")
    for _ in range(20):
        client.embeddings.create(model="text-embedding-3-small", input="What is moss?")
    assert provider.calls == 20


def test_where_the_guard_is_switched_off_nothing_is_checked_and_the_attributes_are_there(
    provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPANFUSE_DISABLED", "1")
    with Watched() as off:
        client: Any = OpenAI(guard=off, session_id="run-42", max_steps=0)
        response, stream = client.chat.completions.create(**CHAT), client.chat.completions.create(**CHAT, stream=True)
        assert len(list(stream)) > 1
    assert (response.spanfuse_cost, response.spanfuse_session_cost, response.spanfuse_session_steps) == (0, 0, 0)
    assert stream.spanfuse_session_steps == 0


def test_a_cap_is_exact_with_many_calls_at_once(provider: FakeProvider, guard: Watched) -> None:
    client = OpenAI(guard=guard, session_id="run-42", max_steps=5)

    def ask(_: int) -> bool:
        try:
            client.chat.completions.create(**CHAT)
        except Blocked:
            return False
        return True

    with ThreadPoolExecutor(20) as pool:
        assert sum(pool.map(ask, range(40))) == 5
    assert provider.calls == 5


def test_so_it_is_in_a_loop(provider: FakeProvider, guard: Watched) -> None:
    async def main() -> list[Any]:
        async with AsyncOpenAI(guard=guard, session_id="run-42", max_steps=5) as client:
            asking = [client.chat.completions.create(**CHAT) for _ in range(40)]
            return await asyncio.gather(*asking, return_exceptions=True)

    assert sum(isinstance(answer, Blocked) for answer in asyncio.run(main())) == 35
    assert provider.calls == 5

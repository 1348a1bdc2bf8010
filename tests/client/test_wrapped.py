"""`Guard.wrap_call` and `Guard.wrap_tool`: functions of every kind as calls and tools."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any

import pytest

from spanfuse import Blocked, Guard
from spanfuse.tools.denied import ToolDenied
from spanfuse.tools.policy import ToolPolicy


@pytest.fixture
def guard() -> Guard:
    return Guard(local=True)


def said(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def until_blocked(ask: Any) -> int:
    for made in range(20):
        try:
            ask()
        except Blocked:
            return made
    raise AssertionError("it was never stopped")


def test_a_plain_function_that_asks_the_same_is_stopped(guard: Guard) -> None:
    @guard.wrap_call(model="our-llama", provider="vllm")
    def ask(messages: list[Any], *, temperature: float = 0) -> str:
        """Asks."""
        return "Soon."

    with guard.session("s"):
        assert until_blocked(lambda: ask(said("Is it done?"), temperature=0.3)) == 3
    assert (ask.__name__, ask.__doc__) == ("ask", "Asks.")
    assert guard.spent("s").steps == 3


def test_a_coroutine_function(guard: Guard) -> None:
    @guard.wrap_call
    async def ask(prompt: str) -> str:
        return "Soon."

    async def main() -> int:
        for made in range(20):
            try:
                with guard.session("s"):
                    await ask("Is it done?")
            except Blocked:
                return made
        return 20

    assert inspect.iscoroutinefunction(ask)
    assert asyncio.run(main()) == 3


def test_generators_are_one_call_each_whatever_is_read_of_them(guard: Guard) -> None:
    @guard.wrap_call(session="s")
    def stream(messages: list[Any]) -> Iterator[str]:
        yield "So"
        yield "on."

    def some() -> None:
        for _ in stream(said("Is it done?")):
            break

    assert list(stream(said("And now?"))) == ["So", "on."]
    assert until_blocked(some) == 3
    assert guard.spent("s").steps == 4


def test_async_generators(guard: Guard) -> None:
    @guard.wrap_call(session="s")
    async def stream(messages: list[Any]) -> AsyncIterator[str]:
        yield "Soon."

    async def main() -> list[str]:
        return [piece async for piece in stream(said("Is it done?"))]

    assert asyncio.run(main()) == ["Soon."]
    assert until_blocked(lambda: asyncio.run(main())) == 2


def test_a_failure_of_the_function_is_the_calls(guard: Guard) -> None:
    @guard.wrap_call(session="s")
    def ask(prompt: str) -> str:
        raise TimeoutError(prompt)

    for n in range(5):
        with pytest.raises(TimeoutError):
            ask(f"Question {n}, {n * n}")
    with pytest.raises(Blocked, match="errors"):
        ask("Question 6")


def test_a_tool_is_known_by_its_arguments_and_what_it_brings() -> None:
    guard = Guard(local=True, tools=ToolPolicy().deny("search", when=lambda args: args["query"] == "secret"))

    class Agent:
        @guard.wrap_tool(session="s")
        def search(self, query: str, **more: int) -> str:
            return f"nothing about {query}"

    agent = Agent()
    assert agent.search("ships", page=1) == "nothing about ships"
    with pytest.raises(ToolDenied):
        agent.search(query="secret")
    assert until_blocked(lambda: agent.search("ships", page=1)) > 1


def test_an_awaited_tool(guard: Guard) -> None:
    @guard.wrap_tool(name="look", session="s")
    async def look_around() -> str:
        return "all quiet here, as it was before"

    assert asyncio.run(look_around()) == "all quiet here, as it was before"


def test_a_tool_in_pieces_is_an_error(guard: Guard) -> None:
    def pieces() -> Iterator[int]:
        yield 1

    with pytest.raises(TypeError, match="in pieces"):
        guard.wrap_tool(pieces)


def test_a_guarded_client_inside_a_generator_is_the_same_call(guard: Guard) -> None:
    def ask(messages: list[Any]) -> str:
        with guard.call(messages=messages) as call:
            call.answered("Soon.")
        return "Soon."

    @guard.wrap_call(session="s")
    def stream(messages: list[Any]) -> Iterator[str]:
        yield ask(messages)

    @guard.wrap_call(session="s")
    async def astream(messages: list[Any]) -> AsyncIterator[str]:
        yield ask(messages)

    async def read() -> list[str]:
        return [piece async for piece in astream(said("And that?"))]

    assert list(stream(said("Is it done?"))) == asyncio.run(read()) == ["Soon."]
    assert guard.spent("s").steps == 2


def test_nothing_of_a_generator_is_lost(guard: Guard) -> None:
    @guard.wrap_call
    def stream(prompt: str) -> Generator[str, str, int]:
        try:
            yield (yield "first")
        except KeyError:
            yield "caught"
        return 7

    def through() -> Generator[str, str, None]:
        assert (yield from stream("Is it done?")) == 7

    pieces = through()
    assert [next(pieces), pieces.send("sent"), pieces.throw(KeyError()), *pieces] == ["first", "sent", "caught"]

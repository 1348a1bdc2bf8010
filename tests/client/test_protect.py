"""The decorator checks before the function's own code runs, and leaves its kind as it was."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from typing import Any

import pytest

from spanfuse import Blocked
from spanfuse.context import CALL, current
from spanfuse.reading.messages import new_input
from spanfuse.testing import FakeGuard, block
from spanfuse_schemas import LoopPrint


@pytest.fixture
def guard() -> FakeGuard:
    return FakeGuard(block("session:stopped"))


def test_a_function_is_checked_before_it_runs(guard: FakeGuard) -> None:
    ran = []

    @guard.protect
    def call(x: int) -> int:
        """Doubles."""
        ran.append(x)
        return 2 * x

    assert call(2) == 4
    assert (call.__name__, call.__doc__) == ("call", "Doubles.")
    with guard.session("stopped"), pytest.raises(Blocked):
        call(3)
    assert ran == [2]


def test_a_coroutine_function_stays_one(guard: FakeGuard) -> None:
    @guard.protect
    async def call() -> str | None:
        await asyncio.sleep(0)
        return current().session

    async def main() -> str | None:
        with guard.session("s"):
            return await call()

    assert inspect.iscoroutinefunction(call)
    assert asyncio.run(main()) == "s"
    with guard.session("stopped"), pytest.raises(Blocked):
        asyncio.run(call())


def test_a_generator_function_stays_one_and_is_checked_when_first_iterated(guard: FakeGuard) -> None:
    closed = []

    @guard.protect
    def stream() -> Generator[str, str, str]:
        try:
            got = yield "first"
            try:
                yield got
            except KeyError:
                yield "caught"
            return "result"
        finally:
            closed.append(True)

    assert inspect.isgeneratorfunction(stream)
    running = stream()
    assert len(guard.checks) == 0
    assert next(running) == "first"
    assert running.send("sent") == "sent"
    assert running.throw(KeyError("x")) == "caught"
    with pytest.raises(StopIteration) as end:
        next(running)
    assert end.value.value == "result"
    assert list(stream()) == ["first", None]
    abandoned = stream()
    next(abandoned)
    abandoned.close()
    assert closed == [True, True, True]
    with guard.session("stopped"), pytest.raises(Blocked):
        next(stream())


def test_a_generator_is_inside_its_call_only_while_it_runs(guard: FakeGuard) -> None:
    inside = []

    @guard.protect(session="s", agent="a")
    def stream() -> Iterator[int]:
        for i in range(2):
            inside.append((CALL.get() is not None, current().session))
            yield i

    for _ in stream():
        assert CALL.get() is None
        assert current().session is None
    assert inside == [(True, "s"), (True, "s")]


def test_an_async_generator_function_stays_one(guard: FakeGuard) -> None:
    seen: list[Any] = []

    @guard.protect(session="s")
    async def stream() -> AsyncIterator[int]:
        try:
            for i in range(3):
                await asyncio.sleep(0)
                seen.append(current().session)
                yield i
        finally:
            seen.append("closed")

    async def whole() -> list[int]:
        return [i async for i in stream() if current().session is None]

    async def broken_off() -> None:
        running = stream()
        async for _ in running:
            break
        await running.aclose()  # type: ignore[attr-defined]

    assert inspect.isasyncgenfunction(stream)
    assert asyncio.run(whole()) == [0, 1, 2]
    assert seen == ["s", "s", "s", "closed"]
    asyncio.run(broken_off())
    assert seen[4:] == ["s", "closed"]

    async def refused() -> None:
        with guard.session("stopped"):
            async for _ in free():
                seen.append("ran")

    @guard.protect
    async def free() -> AsyncIterator[int]:
        seen.append("ran")
        yield 1

    with pytest.raises(Blocked):
        asyncio.run(refused())
    assert "ran" not in seen


def test_an_async_generator_gets_what_is_sent_and_thrown(guard: FakeGuard) -> None:
    @guard.protect
    async def echo() -> AsyncGenerator[Any, Any]:
        got = yield "ready"
        try:
            yield got
        except KeyError:
            yield "caught"

    async def main() -> list[Any]:
        running: AsyncGenerator[Any, Any] = echo()
        return [await running.asend(None), await running.asend("sent"), await running.athrow(KeyError("x"))]

    assert asyncio.run(main()) == ["ready", "sent", "caught"]


def test_only_arguments_that_can_be_given_by_place_are_taken_by_it() -> None:
    guard = FakeGuard()

    @guard.protect
    def keyword_only(*args: Any, messages: Any = None, prompt: Any = None) -> None:
        """As `f("a", "b")`, it has neither."""

    @guard.protect
    def gathered(first: str, *messages: Any) -> None:
        """Its `messages` are whatever is left."""

    keyword_only("a", "b")
    gathered("a", "b", "c")
    keyword_only("a", prompt="again")
    assert [(asked.messages, asked.prompt) for asked in guard.checks] == [(None, None), (None, None), (None, "again")]


def test_the_arguments_messages_and_prompt_are_shown_to_the_check() -> None:
    found = new_input(prompt="again")
    assert found is not None
    guard = FakeGuard(block("session:s", loop=[LoopPrint(canon=found.canon)]))

    @guard.protect(session="s")
    def by_messages(model: str, messages: list[dict[str, str]]) -> str:
        return "answer"

    @guard.protect(session="s")
    def by_prompt(prompt: str, **more: Any) -> str:
        return "answer"

    @guard.protect(session="s")
    def by_any(**kwargs: Any) -> str:
        return "answer"

    again, other = [{"role": "user", "content": "again"}], [{"role": "user", "content": "other"}]
    refusals: list[Callable[[], str]] = [
        lambda: by_messages("m", again),
        lambda: by_messages("m", messages=again),
        lambda: by_prompt("again"),
        lambda: by_any(messages=again),
    ]
    for refused in refusals:
        with pytest.raises(Blocked):
            refused()
    assert by_messages("m", other) == by_prompt("other") == by_any(prompt="other") == "answer"


def test_an_error_of_the_function_is_its_own(guard: FakeGuard) -> None:
    @guard.protect
    def fails() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert CALL.get() is None

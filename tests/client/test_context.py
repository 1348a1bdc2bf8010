"""On whose behalf code runs, told apart across nesting, tasks and threads."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

from spanfuse import session
from spanfuse.context import carry, current


def names() -> tuple[str | None, ...]:
    who = current()
    return who.session, who.agent, who.user, who.team


def test_a_session_holds_inside_its_block_only() -> None:
    with session("s", agent="a", user="u", team="t"):
        assert names() == ("s", "a", "u", "t")
    assert names() == (None, None, None, None)


def test_an_inner_block_inherits_what_it_does_not_name() -> None:
    with session("s", agent="planner", team="t"):
        with session(agent="coder"):
            assert names() == ("s", "coder", None, "t")
        assert names() == ("s", "planner", None, "t")


def test_another_session_is_not_in_the_outer_trace() -> None:
    with session("s", trace="f" * 32):
        with session(agent="a"):
            assert current().trace == "f" * 32
        with session("other"):
            assert current().trace is None


def test_a_session_ends_with_an_exception() -> None:
    try:
        with session("s"):
            raise KeyError("x")
    except KeyError:
        assert current().session is None


def test_one_object_may_be_entered_again() -> None:
    again = session("s")
    with again, session("inner"), again:
        assert current().session == "s"
    assert current().session is None


def test_tasks_do_not_see_each_other() -> None:
    async def agent(name: str) -> bool:
        with session(name):
            for _ in range(5):
                await asyncio.sleep(0)
                if current().session != name:
                    return False
        return True

    async def main() -> list[bool]:
        return await asyncio.gather(*(agent(f"run-{i}") for i in range(20)))

    assert all(asyncio.run(main()))


def test_to_thread_keeps_the_session_and_a_bare_thread_needs_carry() -> None:
    async def main() -> str | None:
        with session("s"):
            return await asyncio.to_thread(lambda: current().session)

    assert asyncio.run(main()) == "s"
    found: list[str | None] = []

    def note() -> None:
        found.append(current().session)

    with session("s"):
        for target in (note, carry(note)):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()
    assert found == [None, "s"]


def test_a_carried_function_may_run_many_times_at_once() -> None:
    def named(_: int) -> str | None:
        return current().session

    with ThreadPoolExecutor(8) as pool, session("s"):
        assert set(pool.map(carry(named), range(100))) == {"s"}


def test_leaving_in_another_context_does_not_raise() -> None:
    """An event loop closes abandoned async generators in a context of its own."""
    held = session("s")
    contextvars.copy_context().run(held.__enter__)
    held.__exit__(None, None, None)

    async def stream() -> AsyncIterator[int]:
        with session("s"):
            yield 1
            yield 2

    async def main() -> None:
        async for _ in stream():
            break

    asyncio.run(main())
    assert current().session is None

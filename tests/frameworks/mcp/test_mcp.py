"""Sessions of MCP with a server in another process and with one over HTTP, whose tools are guarded."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from mcp import ClientSession, StdioServerParameters
from mcp.client import streamable_http
from mcp.client.stdio import stdio_client

from spanfuse.integrations.mcp import wrap_session
from spanfuse.testing import block
from spanfuse.tools.policy import ToolPolicy
from tests.client.waiting import wait_until
from tests.frameworks.mcp.server import made
from tests.frameworks.watched import Watched

ROOT = Path(__file__).parents[3]
QUERY = {"query": "spanfuse"}


@asynccontextmanager
async def over_stdio() -> AsyncIterator[ClientSession]:
    command = StdioServerParameters(command=sys.executable, args=["-m", "tests.frameworks.mcp.server"], cwd=ROOT)
    async with stdio_client(command) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield session


@contextmanager
def served() -> Iterator[str]:
    server = uvicorn.Server(
        uvicorn.Config(made().streamable_http_app(), host="127.0.0.1", port=0, log_level="critical")
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
    server.should_exit = True
    thread.join(10)


@asynccontextmanager
async def over_http() -> AsyncIterator[ClientSession]:
    connect = getattr(streamable_http, "streamable_http_client", None) or streamable_http.streamablehttp_client
    with served() as url:
        async with connect(url) as streams, ClientSession(streams[0], streams[1]) as session:
            await session.initialize()
            yield session


Connected = Callable[[], AbstractAsyncContextManager[ClientSession]]
SESSIONS = pytest.mark.parametrize("connected", [over_stdio, over_http])


def calling(connected: Connected, guard: Watched, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """The results of tools of a guarded session."""

    async def run() -> list[Any]:
        async with connected() as session:
            wrap_session(session, guard)
            return [await session.call_tool(name, arguments) for name, arguments in calls]

    return asyncio.run(run())


def failed(result: Any) -> bool:
    found = result.is_error if hasattr(result, "is_error") else result.isError
    return bool(found)


@SESSIONS
def test_a_tool_is_counted_with_what_it_brought(guard: Watched, connected: Connected) -> None:
    with guard.session("s"):
        (found,) = calling(connected, guard, ("search", QUERY))
    assert found.content[0].text == "found spanfuse"
    (tool,) = guard.executed
    assert (tool.who.session, tool.name, tool.arguments, tool.brought) == ("s", "search", QUERY, "found spanfuse")


@SESSIONS
def test_a_tool_that_is_denied_never_reaches_the_server(connected: Connected) -> None:
    policy = ToolPolicy().deny("search", reason="Ask a librarian.")
    with Watched(tools=policy) as guard:
        denied, count = calling(connected, guard, ("search", QUERY), ("count", {}))
    assert failed(denied)
    assert "Ask a librarian" in denied.content[0].text
    assert count.content[0].text == "0"


@SESSIONS
def test_a_tool_of_a_session_that_is_stopped_never_reaches_the_server(guard: Watched, connected: Connected) -> None:
    guard.publish(block("session:s", message="the same step three times"))
    with guard.session("s"):
        (refused,) = calling(connected, guard, ("search", QUERY))
    assert failed(refused)
    assert "session:s is blocked by repeat.no_progress: the same step three times" in refused.content[0].text
    assert guard.executed == []


def test_a_limit_of_a_tool_holds() -> None:
    policy = ToolPolicy().allow("search", max_calls=2)
    with Watched(tools=policy) as guard, guard.session("s"):
        *found, denied, count = calling(over_stdio, guard, *[("search", QUERY)] * 3, ("count", {}))
    assert [failed(result) for result in found] == [False, False]
    assert failed(denied)
    assert count.content[0].text == "2"


def test_a_tool_that_fails_is_told_as_failed(guard: Watched) -> None:
    (result,) = calling(over_stdio, guard, ("search", {"query": "nothing"}))
    assert failed(result)
    assert guard.executed[0].brought["is_error"] is True


def test_a_session_is_guarded_once(guard: Watched) -> None:
    async def run() -> None:
        async with over_stdio() as session:
            wrap_session(wrap_session(session, guard), guard)
            await session.call_tool("search", QUERY)

    asyncio.run(run())
    assert len(guard.executed) == 1


def test_a_client_is_guarded_like_its_session(guard: Watched) -> None:
    mcp = pytest.importorskip("mcp.client.client")

    async def run() -> None:
        async with wrap_session(mcp.Client(made()), guard) as client:
            wrap_session(client.session, guard)
            await client.call_tool("search", QUERY)

    asyncio.run(run())
    assert [(t.name, t.brought) for t in guard.executed] == [("search", "found spanfuse")]

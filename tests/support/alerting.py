"""Agents that run now, as a host with alerts sees them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from typing import Any

from spanfuse_processor.hosts.embedded import EmbeddedHost
from tests.support.recorded import attribute, chat_span, request

SECOND = 10**9


def call(session: str, n: int, text: str = "What is the weather in Tokyo?", **more: Any) -> dict[str, Any]:
    """A request with one model call, the n-th of its session, a second after the one before.

    Args:
        more: agent, user, team, model, cost_usd.
    """
    span = chat_span(n, [("user", text)], session=session, model=more.pop("model", "gpt-4o-mini"))
    at = time.time_ns() - (100 - n) * SECOND
    span |= {"traceId": ids(session, 16), "spanId": ids(f"{session}/{n}", 8)}
    span |= {"startTimeUnixNano": str(at), "endTimeUnixNano": str(at + SECOND // 10)}
    names = {"agent": "gen_ai.agent.name", "user": "user.id", "team": "team.id"}
    span["attributes"] += [attribute(names[name], value) for name, value in more.items() if name in names]
    if "cost_usd" in more:
        span["attributes"].append({"key": "gen_ai.cost.total_cost", "value": {"doubleValue": more["cost_usd"]}})
    return request(span)


def loop(session: str, calls: int, **more: Any) -> list[dict[str, Any]]:
    """An agent that asks the same again and again."""
    return [call(session, n, **more) for n in range(calls)]


def ids(text: str, size: int) -> str:
    """An id of `size` bytes."""
    return hashlib.blake2b(text.encode(), digest_size=size).hexdigest()


async def delays(without: EmbeddedHost, burdened: EmbeddedHost, sessions: int) -> tuple[float, float]:
    """How long a session takes to be stopped by either host, seconds: the lower quartile of turns."""
    found: dict[EmbeddedHost, list[float]] = {without: [], burdened: []}
    for n in range(sessions):
        for host, took in found.items():
            began = time.perf_counter()
            for one in loop(f"run-{n}", 4):
                await host.engine.ingest(json.dumps(one).encode(), "json", time.time_ns())
            took.append(time.perf_counter() - began)
            await asyncio.sleep(0)
    plain, slowed = (sorted(took)[sessions // 4] for took in found.values())
    return plain, slowed

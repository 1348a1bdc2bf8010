"""Runs of agents whose session comes to be known late."""

from __future__ import annotations

import json
from typing import Any

from tests.support.recorded import START_NS, attribute, chat_span, hash_of, request


def late_run(number: int) -> list[bytes]:
    """A run whose session, user and team only the span of its agent names, which ends last; two instrumentations see each of
    its calls, and every span comes in a request of its own. Each run has a trace of its own, two runs a session."""
    trace, root = f"{hash_of('late', number):032x}", f"{hash_of('late root', number):016x}"
    requests: list[list[dict[str, Any]]] = []
    for turn in range(4):
        at = 1000 + 10 * number + turn
        text = "Are we there yet?" if number % 3 == 0 else f"Look at {at}"
        outer = chat_span(at, [("user", text)], session="", tokens=(100 + turn, 50))
        inner = chat_span(at, [], session="", tokens=(100 + turn, 50))
        outer |= {"traceId": trace, "parentSpanId": root, "spanId": f"{hash_of('outer', at):016x}"}
        inner |= {"traceId": trace, "parentSpanId": outer["spanId"], "spanId": f"{hash_of('inner', at):016x}"}
        content = ("session.id", "gen_ai.input.messages", "gen_ai.output.messages")
        outer["attributes"] = [a for a in outer["attributes"] if a["key"] != "session.id"]
        inner["attributes"] = [a for a in inner["attributes"] if a["key"] not in content]
        requests += [[inner], [outer]]
    agent = {
        "traceId": trace,
        "spanId": root,
        "name": "invoke_agent late",
        "startTimeUnixNano": str(START_NS + (1000 + 10 * number) * 10**9 - 10**8),
        "endTimeUnixNano": str(START_NS + (1009 + 10 * number) * 10**9),
        "attributes": [
            attribute("gen_ai.operation.name", "invoke_agent"),
            attribute("session.id", f"late-{number // 2}"),
            attribute("user.id", f"late-user-{number // 2}"),
            attribute("team.id", "late-team"),
        ],
    }
    return [json.dumps(request(*spans)).encode() for spans in [*requests, [agent]]]

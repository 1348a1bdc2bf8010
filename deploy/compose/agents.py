"""Agents for the profile `demo` of docker-compose.yml: some work, others run away, for ever.

    python agents.py [RUNS]

Models and tools are made up; Guard, spans and reports are real. Addresses and the token come from the environment:
SPANFUSE_API_URL, SPANFUSE_API_TOKEN, OTEL_EXPORTER_OTLP_ENDPOINT. With RUNS it ends after so many runs of each agent.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from spanfuse import Blocked, Guard, instrument

PAUSE_S = 0.2
REST_S = 3.0


class Step(NamedTuple):
    """What the model asks for, and what comes of it."""

    tool: str
    arguments: dict[str, Any]
    result: str
    failed: bool = False


class Agent(NamedTuple):
    """An agent, and the steps of a run."""

    name: str
    team: str
    steps: list[Step]
    model: str = "gpt-4o-mini"
    tokens: tuple[int, int] = (900, 60)


READS = [Step("read_page", {"page": n}, f"Page {n}: what happened on day {n}.") for n in range(1, 12)]
AGENTS = (
    Agent("researcher", "research", READS),
    Agent("writer", "research", [Step("save", {"chapter": n}, f"Chapter {n} saved.") for n in range(1, 9)], "gpt-4o"),
    Agent("repeater", "support", [Step("search", {"query": "refund policy"}, "No results.")] * 30),
    Agent("failing", "support", [Step("open_ticket", {"id": 17}, "Error: no such queue", failed=True)] * 30),
    Agent("cycling", "shop", [Step("price", {}, "9.99"), Step("stock", {}, "3"), Step("offer", {}, "10 %")] * 10),
    Agent("spender", "shop", READS * 3, "gpt-4o", (60_000, 4_000)),
)


def run(agent: Agent, session: str, guard: Guard) -> str:
    """One run; says how it ended."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"Do the work of the {agent.name} for {session}."}]
    with guard.session(session, agent=agent.name, team=agent.team, user=f"user-{hash(session) % 5}"):
        try:
            for number, step in enumerate(agent.steps):
                messages += turn(agent, step, f"call_{number}", messages, guard)
                time.sleep(PAUSE_S)
        except Blocked as blocked:
            return f"stopped by {blocked.rule} after {len(messages) // 2} calls"
    return f"finished after {len(agent.steps)} calls"


def turn(
    agent: Agent, step: Step, call_id: str, messages: list[dict[str, Any]], guard: Guard
) -> Iterator[dict[str, Any]]:
    """A model call and the tool call that it asks for; gives what they add to the conversation."""
    function = {"name": step.tool, "arguments": json.dumps(step.arguments)}
    said = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }
    used = dict(zip(("prompt_tokens", "completion_tokens"), agent.tokens, strict=True))
    with guard.call(model=agent.model, messages=messages, provider="openai") as call:
        call.answered(
            {"model": agent.model, "choices": [{"finish_reason": "tool_calls", "message": said}], "usage": used}
        )
    yield said
    try:
        with guard.tool(step.tool, step.arguments, call_id=call_id) as tool:
            if step.failed:
                raise RuntimeError(step.result)
            tool.result(step.result)
    except RuntimeError:
        pass
    yield {"role": "tool", "tool_call_id": call_id, "content": step.result}


def again(agent: Agent, runs: int | None, guard: Guard) -> None:
    """One run after the other."""
    for number in itertools.count(1) if runs is None else range(1, runs + 1):
        session = f"{agent.name}-{os.getpid()}-{number}"
        ended = run(agent, session, guard)
        print(f"{session}: {ended}\n", end="", flush=True)  # one write, since agents run side by side
        time.sleep(REST_S if runs is None else 0)


def main() -> None:
    """Let all agents run side by side."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else None
    provider = instrument(service_name="demo")
    with Guard(os.environ["SPANFUSE_API_URL"], spans=True) as guard:
        guard.wait_ready(30)
        threads = [threading.Thread(target=again, args=(agent, runs, guard), daemon=True) for agent in AGENTS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    provider.shutdown()


if __name__ == "__main__":
    main()

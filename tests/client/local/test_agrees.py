"""One stream, two hosts: what the core decides of the spans of an agent, the local host decides of its calls, call for call."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spanfuse import Guard
from spanfuse.testing import FakeClock, MemorySubscriber
from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.pricing import Prices
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.otlp.decode import decode
from spanfuse_processor.otlp.normalise import Normaliser
from spanfuse_schemas import Decision
from tests.field.test_guard_agrees import SCRIPTS, WAYS
from tests.otlp.fixtures import request
from tests.support.agents import policy
from tests.support.script import Sent, Shows, agent, tool


def attributes(sent: Sent) -> dict[str, Any]:
    found = {}
    for item in sent.span["attributes"]:
        ((kind, value),) = item["value"].items()
        found[item["key"]] = int(value) if kind == "intValue" else value
    return found


def parsed(value: Any) -> Any:
    return None if value is None else json.loads(value)


def relived(guard: Guard, clock: FakeClock, sent: Sent) -> None:
    """Do in the process what the span tells of."""
    said = attributes(sent)
    clock.advance((int(sent.span["startTimeUnixNano"]) - clock.now_ns()) / 1e9)
    names: dict[str, Any] = {"session": "s", "agent": said.get("gen_ai.agent.name")}
    if sent.model_call:
        call = guard.call(
            model=said.get("gen_ai.request.model", ""), messages=parsed(said.get("gen_ai.input.messages")), **names
        )
        call.begin()
        call.answered(parsed(said.get("gen_ai.output.messages")))
        call.settle(
            input_tokens=said.get("gen_ai.usage.input_tokens"), output_tokens=said.get("gen_ai.usage.output_tokens")
        )
        clock.advance((sent.end_ns - clock.now_ns()) / 1e9)
        call.end()
        return
    executed = guard.tool(
        said["gen_ai.tool.name"],
        said.get("gen_ai.tool.call.arguments"),
        call_id=said.get("gen_ai.tool.call.id", ""),
        **names,
    )
    executed.begin()
    clock.advance((sent.end_ns - clock.now_ns()) / 1e9)
    executed.result(said.get("gen_ai.tool.call.result"))
    kind = said.get("error.type")
    executed.end(type(kind, (Exception,), {})(sent.span.get("status", {}).get("message", "")) if kind else None)


def gist(decision: Decision | None) -> Any:
    """All but what only a span has: ids; and what is rounded to the microsecond."""
    if decision is None or decision.action == "allow":
        return None
    told = decision.model_dump(exclude={"evidence", "issued_at_ns", "expires_at_ns", "signature"})
    return {**told, "expires": round((decision.expires_at_ns or 0) / 1e9)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", [*SCRIPTS, "work"])
def test_the_local_host_decides_as_the_core_does_of_the_spans(name: str, way: Shows) -> None:
    script = SCRIPTS.get(name) or [
        tool("read", path=f"file {n * n}") >> f"the text of file {n}, {n * 7}" for n in range(12)
    ]
    state, pipeline, normaliser = SessionState("s"), Pipeline(policy()), Normaliser(Prices())
    clock = FakeClock(0)
    guard = Guard(MemorySubscriber(), mode="observe", local=policy(), now_ns=clock.now_ns, monotonic=clock.monotonic)
    assert guard.local is not None
    for sent in sorted(agent(*script, shows=way), key=lambda s: s.end_ns):
        data = json.dumps(request(sent.span, resource=sent.resource)).encode()
        for call in normaliser.batch(decode(data, "json"), sent.end_ns).calls:
            pipeline.step(state, call)
        relived(guard, clock, sent)
        held = guard.local.held.peek("s")
        assert gist(held.decision if held else None) == gist(state.decision)
    assert guard.counters.errors == 0

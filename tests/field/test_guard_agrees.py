"""What the road's simulated enforcement refuses, a Guard refuses, and nothing else: it reads the messages before the call,
ingest the span after it, and both have to see the same step."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spanfuse.testing import FakeClock, FakeGuard, is_blocked
from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.pricing import Prices
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.hosts.replay.sessions import refused
from spanfuse_processor.otlp.decode import decode
from spanfuse_processor.otlp.normalise import Normaliser
from tests.otlp.fixtures import request
from tests.support.agents import policy
from tests.support.script import Item, Sent, Shows, agent, together, tool, user

TEXT = "the text of a file, long enough to be told from a mere acknowledgement"
LOOP, OTHER = tool("ls", path="/d") >> TEXT, tool("read", path="f") >> f"{TEXT} f"
SCRIPTS: dict[str, list[Item]] = {
    "repeat": [LOOP] * 6,
    "error": [tool("sql", q="q").fails("bad namespace")] * 6,
    "other errors": [tool("sql", q="q").fails(f"bad namespace {w}") for w in ("a", "b", "c", "d", "e")],
    "cycle": [LOOP, OTHER] * 5,
    "leaves": [LOOP, LOOP, LOOP, OTHER, tool("write", path="g") >> "written to g, all of it, as it should be", LOOP],
    "parallel": [together(LOOP, OTHER), together(OTHER, LOOP)] * 3,
    "user": [LOOP, LOOP, LOOP, user("Stop. What did you find?"), LOOP],
    "same question": [user("Continue.") >> "I am done."] * 6,
    "nested": [
        tool("f", {"q": '{"b": 1, "a": [1, 2]}', "n": 1.0}) >> {"rows": [], "note": "none of them was found there"}
    ]
    * 6,
}
WAYS: tuple[Shows, ...] = ("messages", "both", "blocks", "chat", "restated", "scratchpad")


def shown(sent: Sent) -> Any:
    """The messages of a model call, as its agent has them before the call."""
    values = {a["key"]: a["value"] for a in sent.span["attributes"]}
    return json.loads(values["gen_ai.input.messages"]["stringValue"])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_guard_refuses_what_the_span_will_show(name: str, way: Shows) -> None:
    """Call by call, over loops and what leaves them."""
    state, pipeline, normaliser = SessionState("s"), Pipeline(policy()), Normaliser(Prices())
    clock = FakeClock(0)
    guard = FakeGuard(now_ns=clock.now_ns, monotonic=clock.monotonic, staleness_s=1e12)
    refusals = 0
    for sent in sorted(agent(*SCRIPTS[name], shows=way), key=lambda s: s.end_ns):
        data = json.dumps(request(sent.span, resource=sent.resource)).encode()
        (call,) = normaliser.batch(decode(data, "json"), sent.end_ns).calls
        if sent.model_call:
            clock.advance((call.start_ns - clock.now_ns()) / 1e9)
            held = state.decision is not None and refused(state.decision, call)
            assert (is_blocked(guard, session="s", messages=shown(sent)) is not None) == held
            refusals += held
        guard.publish(*pipeline.step(state, call).decisions)
    if name in ("repeat", "error", "cycle") and way != "scratchpad":
        assert refusals

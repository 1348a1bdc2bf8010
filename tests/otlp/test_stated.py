"""Fingerprints that an agent's process states on its spans: believed within bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanfuse.reading.messages import Prints, read_messages
from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.otlp.span import Span
from spanfuse_schemas import CallBatch, Policy
from spanfuse_schemas.fingerprint import action_print
from tests.otlp.fixtures import call, chat, normaliser, says, span

PRINT = "0" * 32 + ":5"
KINDS = [{"gen_ai.operation.name": "chat"}, {"gen_ai.operation.name": "execute_tool"}]


def stating(stated: Any, kind: dict[str, Any] = KINDS[0], number: int = 1) -> Span:
    text = stated if isinstance(stated, str) else json.dumps(stated)
    return span({**kind, "spanfuse.fingerprint": text}, id=number, at=number)


@pytest.mark.parametrize(
    "unbounded",
    [
        {"history": 10**30},
        {"history": 2**31},
        {"history": -1},
        {"messages": [{"role": "user", "print": PRINT}] * 257},
        {"prior": [{"print": PRINT}] * 257},
        {"actions": [{"tool": "t", "print": PRINT}] * 257},
        {"output": "0" * 32 + ":999999999999"},
        {"actions": [{"tool": "t", "print": "0" * 32 + ":999999999999"}]},
        {"actions": [{"tool": "\ud800", "print": PRINT}]},
    ],
)
def test_what_exceeds_its_bounds_is_counted_and_the_content_is_used(unbounded: dict[str, Any]) -> None:
    using = normaliser()
    asked = [says("How warm is Paris?")]
    found = call(chat(input=asked, attributes={"spanfuse.fingerprint": json.dumps(unbounded)}), using)
    assert (found.content, found.input) == ("content", read_messages(asked).input)
    assert using.counters["fingerprint_invalid"] == 1


def test_names_of_tools_are_in_the_form_that_content_brings_them_in() -> None:
    long = "x" * 3_000_000
    stated = {"actions": [{"tool": f" {long} ", "print": PRINT, "call_id": long}]}
    asked = {"role": "assistant", "tool_calls": [{"id": long, "function": {"name": long, "arguments": "{}"}}]}
    (name,) = call(stating(stated)).called
    assert len(name) == 256
    assert call(chat(output=[asked])).called == (name,)
    (named,) = read_messages([asked]).prior
    printed = named.model_copy(update={"print": Prints.from_json(json.dumps(stated)).actions[0].print})
    assert call(stating(stated)).action == action_print([printed])


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["user", "tool", PRINT, ":0", ":999999999999", "0" * 48 + ":2147483649", "y" * 100_000, "\ud800"])
)
NAMES = SCALARS | st.sampled_from(["weather", " search ", "", "z" * 300])
PRINTS = st.sampled_from([PRINT, "1" * 48 + ":12", ":7", ":2147483648"]) | SCALARS
ACTIONS = st.lists(st.fixed_dictionaries({"print": PRINTS}, optional={"tool": NAMES, "call_id": NAMES}), max_size=4)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": NAMES, "print": PRINTS}, optional={"tool": NAMES, "error": st.booleans(), "restates": st.booleans()}
    ),
    max_size=4,
)
SHAPED = st.fixed_dictionaries(
    {},
    optional={
        "history": st.integers(-2, 2**32) | SCALARS,
        "input": PRINTS,
        "messages": MESSAGES | MESSAGES.map(lambda items: items * 100),
        "prior": ACTIONS | ACTIONS.map(lambda items: items * 100),
        "actions": ACTIONS | ACTIONS.map(lambda items: items * 100),
        "output": PRINTS,
    },
)
ANY = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(SHAPED | ANY | st.text(max_size=40), st.sampled_from(KINDS)), min_size=1, max_size=5))
def test_whatever_is_stated_the_call_goes_all_the_way(stated: list[tuple[Any, dict[str, Any]]]) -> None:
    """Through the topic, the detectors and the table of sessions: one agent cannot stop a worker."""
    pipeline, session, using = Pipeline(Policy()), SessionState("s"), normaliser()
    for number, (said, kind) in enumerate(stated, 1):
        found = call(stating(said, kind, number), using)
        packed = CallBatch(calls=(found,)).to_json()
        assert len(packed) < 300_000
        (read,) = CallBatch.from_json(packed).calls
        assert read == found
        assert pipeline.step(session, read).counted == 1
        assert SessionState.restore(session.snapshot()).snapshot() == session.snapshot()
    assert using.counters["failed"] == 0

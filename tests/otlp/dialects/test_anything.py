"""Whatever stands under the keys of a dialect, its spans are read, and come to calls that can be."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanfuse_processor.otlp.dialects import DIALECTS, dialect_of
from spanfuse_processor.otlp.dialects.dialect import Dialect
from spanfuse_processor.otlp.span import SpanEvent
from spanfuse_processor.otlp.values import EventKey, JsonKey
from tests.otlp.fixtures import NOW_NS, calls, normaliser, span

TEXTS: Final = (
    "",
    "text",
    "12",
    "-1",
    "NaN",
    "true",
    "null",
    "{}",
    "[]",
    "[[]]",
    "[null]",
    '"quoted"',
    '{"role": 7}',
    '[{"role": "tool"}]',
    '{"messages": {"messages": []}}',
    '[{"role": "assistant", "content": [null, 7, {"type": "tool_use"}], "tool_calls": [null, 7, {"function": 7}]}]',
    '{"choices": [{"message": {"tool_calls": [{"function": {"name": null, "arguments": 7}}]}}], "usage": []}',
    '[{"event.name": "gen_ai.choice", "message": {"content": [7]}}]',
    "{'a': 1",
    "ResponseFunctionToolCall(name=None)",
    "[" * 2000,
    '[{"toolUse": null}, {"toolResult": {"content": 7}}]',
)
leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from(TEXTS), st.binary(max_size=4))
values = st.one_of(
    leaves, st.lists(leaves, max_size=3), st.dictionaries(st.sampled_from(["role", "content", "parts"]), leaves)
)


def keys_of(dialect: Dialect) -> list[str | EventKey]:
    """The attributes and events that a dialect looks at."""
    found: list[str | EventKey] = [roles.attribute for roles in dialect.roles if roles.attribute]
    for field in dialect.__dataclass_fields__:
        value = getattr(dialect, field)
        for key in value if isinstance(value, tuple) else ():
            if isinstance(key, EventKey):
                found.append(key)
            elif isinstance(key, JsonKey):
                found.append(key.attribute)
            elif isinstance(key, str) and field not in ("scopes", "span_names", "tool_span", "ttft_events"):
                found.append(key)
    shared = [
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.prompt",
        "gen_ai.completion",
        "metadata",
        "events",
    ]
    flat = ["gen_ai.prompt.0.role", "gen_ai.prompt.0.tool_calls.0.name", "llm.input_messages.0.message.content"]
    return sorted({*found, *shared, *flat}, key=str)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_spans_with_anything_in_them_are_read(dialect: Dialect, data: Any) -> None:
    keys = keys_of(dialect)
    given_ = data.draw(st.dictionaries(st.sampled_from(keys), values, max_size=12))
    attributes = {key: value for key, value in given_.items() if isinstance(key, str)}
    events = [
        SpanEvent(key.event, NOW_NS, {key.attribute: v}) for key, v in given_.items() if isinstance(key, EventKey)
    ]
    roles = dialect.roles[0]
    if roles.attribute and data.draw(st.booleans()):
        attributes[roles.attribute] = data.draw(st.sampled_from(sorted(roles.values))).strip("*")
    scope = dialect.scopes[0].rstrip("*") if dialect.scopes else "test"
    ingest = normaliser()
    found = calls(span(attributes, scope=scope, events=events, name="chat"), using=ingest)
    assert ingest.counters["failed"] == 0
    assert all(c.cost_nano_usd >= 0 and c.tokens.input >= c.tokens.cache_read >= 0 for c in found)


@pytest.mark.parametrize("dialect", [d for d in DIALECTS if d.scopes], ids=lambda dialect: dialect.name)
def test_a_scope_tells_its_dialect(dialect: Dialect) -> None:
    for scope in dialect.scopes:
        assert dialect_of(span({}, scope=scope.replace("*", ".any"))) is dialect

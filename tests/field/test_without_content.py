"""Agents whose processes state fingerprints are found and stopped at the very call at which their content would stop them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from spanfuse.fingerprints import state_call, state_tool
from tests.field.test_guard_agrees import SCRIPTS, WAYS
from tests.otlp.fixtures import pairs
from tests.support.road import Played, play
from tests.support.script import Sent, Shows, agent

ALL_WAYS: tuple[Shows, ...] = (*WAYS, "spans")


class Attributes(dict[str, Any]):
    """Of a span, as the agent's process sets them."""

    def set_attribute(self, key: str, value: Any) -> None:
        self[key] = value


def content_off(sent: Sent) -> Sent:
    """The same span, of which the agent's process has stated what it would have recorded."""
    values = Attributes({a["key"]: next(iter(a["value"].values())) for a in sent.span["attributes"]})
    asked, answered = (values.pop(f"gen_ai.{way}.messages", None) for way in ("input", "output"))
    arguments, result = (values.pop(f"gen_ai.tool.call.{what}", None) for what in ("arguments", "result"))
    if sent.model_call and asked is not None:
        state_call(values, json.loads(asked), None if answered is None else json.loads(answered))
    elif not sent.model_call:
        failure = sent.span["status"].get("message")
        state_tool(values, values["gen_ai.tool.name"], arguments, result, error=failure)
    return replace(sent, span={**sent.span, "attributes": pairs(dict(values))})


def found(played: Played) -> list[tuple[Any, ...]]:
    return [(d.rule, d.action, d.conditional, d.at_ns, d.evidence) for d in played.detections]


@pytest.mark.parametrize("way", ALL_WAYS)
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_same_is_found_at_the_same_call_with_content_and_without(name: str, way: Shows) -> None:
    spans = agent(*SCRIPTS[name], shows=way)
    shown, stated = play(spans), play([content_off(sent) for sent in spans])
    assert not any("messages" in a["key"] for sent in spans for a in content_off(sent).span["attributes"])
    assert found(stated) == found(shown)
    assert (stated.after, stated.rule, stated.calls) == (shown.after, shown.rule, shown.calls)

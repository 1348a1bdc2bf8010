"""Field reports: each call counts once, whichever spans tell of it, and in whatever order they come."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from spanfuse_processor.otlp.span import Span
from tests.core.test_belated import Host
from tests.otlp.fixtures import chat, says, span

TASK = [says("Where is my parcel?")]


def model_call(number: int, tokens: tuple[int, int], **more: Any) -> Span:
    """A model call below the agent, which is span 1."""
    usage = {"gen_ai.usage.input_tokens": tokens[0], "gen_ai.usage.output_tokens": tokens[1]}
    attributes = {"session.id": "s", **usage, **more.pop("attributes", {})}
    return chat(**{"id": number, "parent": 1, "at": number, "lasts": 0.5, "attributes": attributes, **more})


def agent(tokens: tuple[int, int]) -> Span:
    """The span around them, which tells tokens under the same names."""
    usage = {"gen_ai.usage.input_tokens": tokens[0], "gen_ai.usage.output_tokens": tokens[1]}
    return span({"gen_ai.operation.name": "invoke_agent", "session.id": "s", **usage}, id=1, lasts=60, kind=1)


def came(*requests: list[Span]) -> Host:
    """A host that has taken some requests."""
    host = Host()
    for spans in requests:
        host.take(spans)
    return host


def blocks(host: Host) -> list[str]:
    return [d.rule for d in host.detections if d.action == "block"]


R077 = [agent((113, 11)), model_call(2, (56, 5)), model_call(3, (57, 6))]
R078 = [agent((2569, 99)), model_call(2, (2239, 192)), model_call(3, (2569, 99))]


@pytest.mark.parametrize("order", [*permutations(range(3))])
@pytest.mark.parametrize("spans", [R077, R078], ids=["the sum", "the last"])
def test_r077_r078_what_an_agents_span_repeats_of_its_calls_counts_for_nothing(
    spans: list[Span], order: tuple[int, ...]
) -> None:
    """Some write the sum of all calls under the names of one, some the last call's: neither is a call."""
    wanted = sum(span.attributes[f"gen_ai.usage.{way}_tokens"] for span in spans[1:] for way in ("input", "output"))
    for host in (came([spans[i] for i in order]), came(*([spans[i]] for i in order))):
        assert (host.states["s"].calls, host.states["s"].tokens) == (2, wanted)


def twice_seen(number: int, *, apart: bool = False) -> list[Span]:
    """A call as the provider's instrumentation sees it, and, around it, the framework's, which knows nothing of the cache."""
    inner, outer = 10 * number + 1, 10 * number
    cached = {"gen_ai.usage.cache_read.input_tokens": 900, "session.id": "s"}
    return [
        model_call(inner, (1000, 10), parent=outer, at=number + 0.1, lasts=0.3, scope="anthropic", attributes=cached),
        model_call(outer, (1000, 10), at=number, lasts=0.5, scope="langchain", input=TASK),
    ]


@pytest.mark.parametrize("apart", [False, True])
def test_r080_a_call_that_two_instrumentations_see_counts_once(apart: bool) -> None:
    """With the cache that only one of them knows; and two such calls are two, not four in a row."""
    spans = [found for number in (1, 2) for found in twice_seen(number)]
    host = came(*([one] for one in spans)) if apart else came(spans)
    assert (host.counted, host.states["s"].calls, host.states["s"].tokens) == (2, 2, 2020)
    assert host.charged["global:*"] == 2 * (100 * 150 + 900 * 75 + 10 * 600)
    assert blocks(host) == []


def test_r080_three_such_calls_are_a_loop_like_any_other() -> None:
    host = came(*([one] for number in (1, 2, 3) for one in twice_seen(number)))
    assert blocks(host) == ["repeat.prompt"]


def test_r081_a_span_that_is_delivered_twice_counts_once_in_every_rule() -> None:
    """Two exporters in one process: two calls that are alike are no loop, however often they come."""
    spans = [model_call(number, (100, 10), input=TASK) for number in (2, 3)]
    host = came(*([one] for one in spans for _ in range(2)), spans, [spans[0]])
    assert (host.states["s"].calls, host.states["s"].tokens) == (2, 220)
    assert blocks(host) == []


@pytest.mark.parametrize("apart", [False, True])
def test_r082_a_span_that_is_recorded_twice_under_two_ids_counts_once(apart: bool) -> None:
    """A callback that is installed twice: parent, times to the nanosecond, model and tokens are the same."""
    spans = [model_call(number, (100, 10), at=1.000_123, input=TASK) for number in (2, 3)]
    host = came(*([one] for one in spans)) if apart else came(spans)
    assert (host.states["s"].calls, host.states["s"].tokens) == (1, 110)


def test_r082_calls_that_run_side_by_side_are_not_taken_for_one() -> None:
    """They begin together; they do not end together as well."""
    host = came([model_call(2, (100, 10), at=1), model_call(3, (100, 10), at=1, lasts=0.6)])
    assert host.states["s"].calls == 2


def test_r094_calls_whose_parent_never_comes_are_watched_like_any_other() -> None:
    """A parent that stays open for hours is never exported."""
    host = came(*([model_call(number, (100, 10), parent=99, input=TASK)] for number in range(2, 22)))
    assert host.states["s"].calls == 20
    assert "repeat.prompt" in blocks(host)
    decision = host.states["s"].decision
    assert decision is not None
    assert decision.evidence.count >= 3

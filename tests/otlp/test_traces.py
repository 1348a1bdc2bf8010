"""What is remembered of traces is bounded."""

from __future__ import annotations

from spanfuse_processor.otlp import traces
from spanfuse_processor.otlp.traces import Node, Traces


def test_idle_traces_are_forgotten_first() -> None:
    found = Traces(max_spans=10)
    for i in range(100):
        found.add("busy", Node("root", "", "agent"))
        found.add(str(i), Node("root", "", "agent"))
    assert len(found) <= 10
    assert [n.span_id for n in found.ancestors("busy", "root")] == ["root"]
    assert not list(found.ancestors("0", "root"))


def test_one_trace_cannot_fill_the_memory() -> None:
    found = Traces()
    for i in range(traces.MAX_SPANS_PER_TRACE + 100):
        found.add("t", Node(str(i), "", "other"))
    assert len(found) == traces.MAX_SPANS_PER_TRACE


def test_a_span_that_comes_again_is_remembered_once() -> None:
    found = Traces()
    found.add("t", Node("a", "", "other"))
    found.add("t", Node("a", "", "other", session="s"))
    assert (len(found), next(found.ancestors("t", "a")).session) == (1, "s")


def test_ancestors_are_followed_a_bounded_way_up() -> None:
    found = Traces()
    for i in range(1000):
        found.add("t", Node(str(i), str(i + 1), "other"))
    assert len(list(found.ancestors("t", "0"))) == traces.MAX_HOPS


def test_a_span_that_comes_again_with_another_parent_each_time_cannot_fill_the_memory() -> None:
    found = Traces()
    for i in range(traces.MAX_SPANS_PER_TRACE + 100):
        found.add("t", Node("a", f"p{i}", "llm"))
    assert len(found.of("t").inside) == traces.MAX_SPANS_PER_TRACE

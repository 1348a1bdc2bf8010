"""One model call, seen by three instrumentations within one another, whose spans end up in any number of requests."""

from __future__ import annotations

from itertools import product

import pytest

from spanfuse_processor.otlp import traces
from spanfuse_processor.otlp.span import Span
from tests.core.test_belated import EACH_NANO_USD, Host, agent
from tests.otlp.fixtures import chat, says, span

CUTS = [*product((False, True), repeat=5)]


def spans(between: bool, content: tuple[bool, ...]) -> list[Span]:
    """A call under an agent, innermost first, with HTTP clients between them or not; the agent's span is last."""
    found: list[Span] = []
    parent, at, lasts = 1, 1.0, 1.0
    for number, shows in enumerate(content):
        own = 10 + 10 * number
        asked = [says("Where is my parcel?")] if shows else None
        found.append(chat(id=own, parent=parent, at=at, lasts=lasts, input=asked, scope=f"library {number}"))
        parent, at, lasts = own, at + 0.1, lasts - 0.2
        if between and number == 1:
            found.append(span({}, id=own + 1, parent=parent, at=at, lasts=lasts, name="POST"))
            parent, at, lasts = own + 1, at + 0.1, lasts - 0.2
    return [*reversed(found), agent()]


@pytest.mark.parametrize("content", [*product((False, True), repeat=3)])
@pytest.mark.parametrize("between", [False, True])
def test_it_counts_once_for_everybody_however_its_spans_are_cut_into_requests(
    between: bool, content: tuple[bool, ...]
) -> None:
    known = spans(between, content)
    for cuts in CUTS:
        host = Host()
        request: list[Span] = []
        for found, ends in zip(known, (*cuts, True, True), strict=False):
            request.append(found)
            if ends:
                host.take(request)
                request = []
        host.take(request)
        assert (host.counted, host.states["s"].calls) == (1, 1), cuts
        assert (host.charged["user:u"], host.charged["team:t"]) == (EACH_NANO_USD, EACH_NANO_USD), cuts


@pytest.mark.parametrize("shows", [False, True])
def test_what_holds_the_sum_of_two_calls_is_none_of_them_nor_is_what_holds_it(shows: bool) -> None:
    asked = [says("Where is my parcel?")] if shows else None
    outer = chat(id=2, parent=1, at=1, lasts=9, input=asked, scope="outer")
    middle = chat(id=3, parent=2, at=1, lasts=8, scope="middle")
    inner = [chat(id=4 + n, parent=3, at=2 + 2 * n, input=[says(f"{n}?")], scope="inner") for n in (0, 1)]
    for requests in ([[*inner, middle, outer, agent()]], [inner, [middle, outer, agent()]]):
        host = Host()
        for request in requests:
            host.take(request)
        assert (host.counted, host.charged["user:u"]) == (2, 2 * EACH_NANO_USD)


def test_a_call_of_a_trace_too_large_to_be_remembered_is_charged_to_its_user_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(traces, "MAX_SPANS_PER_TRACE", 8)
    host = Host()
    for _ in range(3):
        host.take([chat(id=10 + n, parent=1, at=1 + n, lasts=0.5) for n in range(20)])
    host.take([agent()])
    assert (host.counted, host.calls["user:u"]) == (20, 20)

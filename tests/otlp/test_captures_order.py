"""Recorded spans that come one by one, as their spans end or the other way round: the same is counted, for the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import pytest

from spanfuse_processor.otlp.span import Span
from tests.core.test_belated import Host
from tests.otlp.fixtures import NOW_NS
from tests.otlp.truth import FOLDER, RECORDED, spans

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="no recordings here")

Totals = Mapping[str, tuple[int, ...]]
SURE: Final = ("user:", "team:", "model:", "global:")


class Later(Host):
    """A host that receives after the recordings were made."""

    def read(self, spans: Sequence[Span]) -> None:
        self._send(self.normaliser.batch(spans, 2 * NOW_NS))


def totals(requests: Iterable[Sequence[Span]]) -> tuple[Totals, Totals]:
    """Of each session that has any: model calls, tool executions, tokens, cost; of each scope that was charged: cost, calls.
    The name of an agent comes with its span, so that it is charged with what comes after."""
    host = Later()
    for request in requests:
        host.take(request)
    states = host.states.items()
    sessions = {name: (s.calls, s.tools, s.tokens, s.cost_nano_usd) for name, s in states if s.calls or s.tools}
    scopes = {
        scope: (cost, host.calls[scope]) for scope, cost in host.charged.items() if cost and scope.startswith(SURE)
    }
    return sessions, scopes


@pytest.mark.parametrize(("capture", "scenario"), RECORDED)
@pytest.mark.parametrize("late", [False, True], ids=["children first", "parents first"])
def test_spans_that_come_one_by_one_count_as_those_that_come_together(capture: str, scenario: str, late: bool) -> None:
    found = spans(capture, scenario)
    in_order = sorted(found, key=lambda span: (span.end_ns, -span.start_ns), reverse=late)
    assert totals([span] for span in in_order) == totals([found])


@pytest.mark.parametrize(("capture", "scenario"), RECORDED)
def test_nothing_is_said_of_an_agent_that_does_its_work(capture: str, scenario: str) -> None:
    """Whether its spans come together or one by one."""
    found = spans(capture, scenario)
    host, other = Later(), Later()
    host.take(found)
    for span in sorted(found, key=lambda span: span.end_ns):
        other.take([span])
    assert [*host.detections, *other.detections] == []

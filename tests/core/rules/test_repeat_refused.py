"""repeat.refused: a request that the provider refuses as wrong does not become right by being sent once more."""

from __future__ import annotations

from spanfuse_schemas import Call
from tests.support.agents import failure, play, policy, prompt, tool
from tests.support.sequences import refused, strongest


def said(calls: list[Call]) -> str:
    return strongest(calls, policy(), "repeat.refused")


def test_the_sixth_is_refused_and_another_request_is_not() -> None:
    assert (play(refused(8)).blocked_at, play(refused(8)).rule) == (5, "repeat.refused")
    assert play([*refused(5), prompt("something shorter", at=9)]).blocked_at is None


def test_an_answer_or_another_request_begins_anew() -> None:
    assert said([*refused(4), prompt("hello", at=5), failure("400", error_class="client", at=6)]) == ""
    assert said([*refused(4), failure("400", text="other", error_class="client", at=5), *refused(4)]) == ""


def test_failures_of_the_provider_and_of_tools_neither_count_nor_end_the_row() -> None:
    between = [failure("503", at=4.5), tool("t", 1, "Error: no", at=4.6), tool("t", 2, "fine", at=4.7)]
    assert said([*refused(4), *between]) == ""
    assert said([*refused(4), *between, failure("400", error_class="client", at=5)]) == "block"


def test_it_tells_how_often_and_from_when_on() -> None:
    calls = [c.model_copy(update={"cost_nano_usd": 10}) for c in refused(5)]
    (found,) = [d for d in play(calls).detections if d.rule == "repeat.refused"]
    assert (found.evidence.count, found.evidence.first_span_id) == (5, calls[0].span_id)
    assert "refused 5 times (400)" in found.message

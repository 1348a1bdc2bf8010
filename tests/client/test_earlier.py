"""Requests that refer to an earlier answer are shown with it."""

from __future__ import annotations

from typing import Any

import pytest

from spanfuse.reading import earlier
from spanfuse.reading.answers import Answer
from spanfuse.reading.asked import asked
from spanfuse.reading.earlier import Earlier

CALL = {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "ok"}


def answered(reply: list[Any], response_id: str = "resp_1", **body: Any) -> Earlier:
    known = Earlier()
    known.keep(body, Answer(reply, response_id=response_id))
    return known


def test_the_answer_before_stands_before_what_is_new() -> None:
    body = {"model": "m", "input": [RESULT], "previous_response_id": "resp_1"}
    assert asked("responses", body, answered([CALL]))["messages"] == [CALL, RESULT]


def test_a_text_that_follows_is_one_of_the_user() -> None:
    shown = asked("responses", {"input": "go on", "previous_response_id": "resp_1"}, answered([CALL]))
    assert shown["messages"] == [CALL, {"role": "user", "content": "go on"}]
    assert "prompt" not in shown


@pytest.mark.parametrize("conversation", ["conv_1", {"id": "conv_1"}])
def test_a_conversation_has_the_last_of_its_answers(conversation: Any) -> None:
    known = answered([CALL], conversation=conversation)
    known.keep({"conversation": conversation}, Answer([RESULT], response_id="resp_2"))
    assert known.before({"conversation": conversation}) == [RESULT]


def test_an_answer_that_is_not_known_is_referred_to() -> None:
    assert Earlier().before({"previous_response_id": "resp_7"}) == [{"type": "item_reference", "id": "resp_7"}]


@pytest.mark.parametrize("body", [{}, {"previous_response_id": None}, {"conversation": {}}, {"conversation": 7}])
def test_a_request_that_refers_to_nothing_is_shown_as_it_is(body: dict[str, Any]) -> None:
    assert Earlier().before(body) == []
    assert asked("responses", body | {"input": "hi"}, Earlier())["prompt"] == "hi"


def test_thoughts_are_not_kept_and_answers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(earlier, "MAX_ANSWERS", 2)
    known = answered([{"type": "reasoning", "encrypted_content": "x" * 9_999}, CALL])
    assert known.before({"previous_response_id": "resp_1"}) == [CALL]
    for n in range(2, 5):
        known.keep({}, Answer([CALL], response_id=f"resp_{n}"))
    assert known.before({"previous_response_id": "resp_1"}) != [CALL]
    known.keep({}, None)
    known.keep({}, Answer(None, response_id="resp_9"))

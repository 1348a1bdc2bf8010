"""On whose behalf a request comes, and what its session may take."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spanfuse_processor.proxy import whose
from spanfuse_processor.proxy.refusals import Refusal
from spanfuse_processor.proxy.whose import Whose

TRACE = "0af7651916cd43dd8448eb211c80319c"


def read(headers: dict[str, str] | None = None, body: dict[str, Any] | None = None, **path: str) -> Whose:
    return whose.read({name.lower(): value for name, value in (headers or {}).items()}, path, body or {})


def test_headers_name_session_agent_user_team_and_the_caps() -> None:
    found = read(
        {
            "X-Spanfuse-Session-ID": "run-42",
            "X-Spanfuse-Session-Budget": "5.00",
            "X-Spanfuse-Session-Max-Steps": "20",
            "X-Spanfuse-Agent": "planner",
            "X-Spanfuse-User": "ada",
            "X-Spanfuse-Team": "research",
            "traceparent": f"00-{TRACE}-b7ad6b7169203331-01",
        }
    )
    assert found == Whose("run-42", "planner", "ada", "research", TRACE, 5.0, 20)


def test_the_headers_of_loopers_say_the_same() -> None:
    headers = {
        "X-Loopers-Session-ID": "run-42",
        "X-Loopers-Session-Budget": "5.00",
        "X-Loopers-Session-Max-Steps": "20",
    }
    assert read(headers) == Whose("run-42", budget_usd=5.0, max_steps=20)


def test_the_short_name_of_the_step_cap_is_understood() -> None:
    assert read({"X-Spanfuse-Session-ID": "s", "X-Spanfuse-Max-Steps": "3"}).max_steps == 3


def test_our_headers_go_before_those_of_loopers_before_the_path_before_the_body() -> None:
    body = {"metadata": {"session_id": "of the body"}}
    headers = {"X-Spanfuse-Session-ID": "ours", "X-Loopers-Session-ID": "theirs"}
    assert read(headers, body, session="of the path").session == "ours"
    assert read({"X-Loopers-Session-ID": "theirs"}, body, session="of the path").session == "theirs"
    assert read({}, body, session="of the path").session == "of the path"
    assert read({}, body).session == "of the body"


def test_a_body_names_the_user_as_openai_and_anthropic_have_it() -> None:
    assert read(body={"user": "ada"}).user == "ada"
    assert read(body={"metadata": {"user_id": "ada"}}).user == "ada"
    assert read({"X-Spanfuse-User": "eve"}, {"user": "ada"}).user == "eve"


def test_a_body_that_names_nobody_or_nonsense_names_nobody() -> None:
    assert read(body={"metadata": ["x"], "user": 7}) == Whose()
    assert read(body={"metadata": {"session_id": " ", "user_id": {}}}) == Whose()


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("X-Spanfuse-Session-Budget", "five"),
        ("X-Spanfuse-Session-Budget", "-1"),
        ("X-Spanfuse-Session-Budget", "nan"),
        ("X-Spanfuse-Session-Budget", "inf"),
        ("X-Spanfuse-Session-Budget", ""),
        ("X-Loopers-Session-Budget", "5, 6"),
        ("X-Spanfuse-Session-Max-Steps", "2.5"),
        ("X-Spanfuse-Session-Max-Steps", "-1"),
        ("X-Spanfuse-Max-Steps", "many"),
        ("X-Loopers-Session-Max-Steps", "9" * 5000),
        ("X-Spanfuse-Session-ID", "  "),
        ("X-Spanfuse-Agent", ""),
    ],
)
def test_a_header_with_a_value_that_it_cannot_have_is_named_in_the_refusal(header: str, value: str) -> None:
    with pytest.raises(Refusal) as caught:
        read({"X-Spanfuse-Session-ID": "s", header: value})
    error = json.loads(caught.value.body)["error"]
    assert caught.value.status == 400
    assert error["code"] == "spanfuse_invalid_header"
    assert error["param"] == header.lower()
    assert len(error["message"]) < 200


def test_a_cap_without_a_session_is_refused() -> None:
    with pytest.raises(Refusal, match="x-spanfuse-session-budget needs a session"):
        read({"X-Spanfuse-Session-Budget": "5"})


@pytest.mark.parametrize(
    "value", ["", "nonsense", f"00-{'0' * 32}-b7ad6b7169203331-01", f"00-{TRACE.upper()}-b7ad6b7169203331-01"]
)
def test_what_is_no_traceparent_is_no_trace(value: str) -> None:
    assert read({"traceparent": value}).trace is None

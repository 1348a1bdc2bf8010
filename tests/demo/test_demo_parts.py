"""The demo's parts: what the fake LLM answers, what counts as the right outcome, how it is shown."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from rich.console import Console

from spanfuse_processor.demo.agent import as_parts
from spanfuse_processor.demo.board import Board, Row
from spanfuse_processor.demo.llm import FakeLlm, answer
from spanfuse_processor.demo.scenarios import BY_NAME, PAGES, SCENARIOS, prompts
from spanfuse_processor.demo.view import Lines, LiveTable, Silent, view_of

RIGHT = {
    "repeater": "repeat.prompt",
    "cycler": "cycle",
    "burster": "velocity",
    "overspender": "budget.session",
    "healthy": None,
}


def ended_as(outcomes: dict[str, str | None]) -> Board:
    board = Board()
    for name, rule in outcomes.items():
        row = board.rows[name]
        row.apply({"event": "ready"})
        row.apply({"event": "call", "allowed": 3})
        row.apply({"event": "finished"} if rule is None else {"event": "blocked", "rule": rule, "message": "Stop."})
        row.apply({"event": "exit", "message": "ended with exit code 0"})
    return board


def test_the_right_outcomes_differ_in_nothing() -> None:
    board = ended_as(RIGHT)
    assert board.ended
    assert board.differences() == []


@pytest.mark.parametrize(
    ("name", "rule", "told"),
    [
        ("repeater", None, "should have been stopped by repeat.prompt"),
        ("repeater", "cycle", "was stopped by cycle"),
        ("healthy", "cycle", "should have finished"),
    ],
)
def test_each_wrong_outcome_is_told_in_one_line(name: str, rule: str | None, told: str) -> None:
    (line,) = ended_as(RIGHT | {name: rule}).differences()
    assert line.startswith(name)
    assert told in line


def test_an_agent_that_ends_without_an_outcome_has_failed_with_its_last_words() -> None:
    row = Row(BY_NAME["healthy"])
    row.apply({"event": "exit", "message": "ModuleNotFoundError: No module named 'x'"})
    assert row.ended
    assert row.difference() == "healthy: ModuleNotFoundError: No module named 'x'"


def test_an_agent_that_does_not_end_is_told() -> None:
    assert Row(BY_NAME["cycler"]).difference() == "cycler: did not end in time"


def test_the_json_outcome_has_exactly_the_documented_keys() -> None:
    agents = ended_as(RIGHT).outcome()["agents"]
    assert [tuple(a) for a in agents] == [("name", "calls_allowed", "blocked_by", "finished")] * 5
    assert {a["name"]: a["blocked_by"] for a in agents} == RIGHT
    assert {a["name"]: a["finished"] for a in agents} == {name: rule is None for name, rule in RIGHT.items()}


def test_the_views_show_who_was_stopped_before_which_call_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    board, lines = ended_as(RIGHT), Lines()
    for row in board:
        lines.changed(row)
        lines.changed(row)
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 5
    assert "repeater: stopped before call 4 by repeat.prompt: Stop." in said
    Console(width=120).print(LiveTable(board).table())
    assert "budget.session" in capsys.readouterr().out


def test_where_stdout_is_no_terminal_lines_are_shown_and_json_shows_nothing() -> None:
    assert isinstance(view_of(Board(), "text"), Lines)
    assert type(view_of(Board(), "json")) is Silent


def test_the_burster_never_asks_the_same_twice() -> None:
    burster = BY_NAME["burster"]
    asked = list(islice(prompts("burster"), burster.max_calls))
    assert len(set(asked)) == burster.max_calls


def test_the_healthy_agent_is_answered_with_tool_calls_until_it_has_read_all_pages() -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Read."}]
    turns = 0
    while True:
        turns += 1
        choice = answer({"user": "healthy", "model": "m", "messages": messages})["choices"][0]
        messages.append(choice["message"])
        if choice["finish_reason"] == "stop":
            break
        messages.append({"role": "tool", "tool_call_id": choice["message"]["tool_calls"][0]["id"], "content": "x"})
    assert turns == PAGES + 1


def test_openai_messages_become_parts() -> None:
    called = answer({"user": "healthy", "model": "m", "messages": []})["choices"][0]["message"]
    part = {"type": "tool_call", "id": "call_0", "name": "read_page", "arguments": {"page": 0}}
    assert as_parts(called) == {"role": "assistant", "parts": [part]}
    result = {"role": "tool", "tool_call_id": "call_0", "content": "text"}
    assert as_parts(result)["parts"] == [{"type": "tool_call_response", "id": "call_0", "response": "text"}]


def test_the_fake_llm_speaks_http_and_gives_the_same_answer_each_time() -> None:
    body = {"model": "gpt-4o", "user": "overspender", "messages": [{"role": "user", "content": "Hello"}]}
    with FakeLlm() as llm:
        answers = [_post(f"{llm.url}/v1/chat/completions", body) for _ in range(2)]
        with pytest.raises(HTTPError, match="404"):
            _post(f"{llm.url}/v1/embeddings", body)
    assert answers[0] == answers[1]
    assert answers[0]["usage"] == {"prompt_tokens": 4000, "completion_tokens": 1000, "total_tokens": 5000}


def _post(url: str, body: dict[str, Any]) -> Any:
    with urlopen(Request(url, json.dumps(body).encode()), timeout=5) as response:
        return json.load(response)


def test_every_scenario_has_a_session_of_its_own() -> None:
    assert len({s.session for s in SCENARIOS}) == len(SCENARIOS) == 5

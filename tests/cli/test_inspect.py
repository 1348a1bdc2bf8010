"""`inspect` on the command line: what each span becomes, and why."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spanfuse_processor.hosts import spans as spans_of
from tests.cli.conftest import Spanfuse
from tests.otlp.fixtures import chat, json_bytes, protobuf_bytes, says, span

KEYS = [
    "span_id", "name", "dialect", "kind", "counted", "reason", "session", "session_source", "user", "team", "agent",
    "provider", "model", "tokens", "cost_nano_usd", "cost_source", "error", "tool_calls", "tool_name",
]  # fmt: skip
"""What others rely on."""
ASKS = {
    "role": "assistant",
    "parts": [{"type": "tool_call", "id": "c", "name": "get_weather", "arguments": '{"city": "Paris"}'}],
}
AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "planner", "gen_ai.usage.input_tokens": 100}
WHO = {"session.id": "run-42", "user.id": "ada", "team.id": "research"}
TOOL = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "get_weather",
    "gen_ai.tool.call.arguments": '{"city": "Paris"}',
    "gen_ai.tool.call.result": "sunny",
}


def run_of_an_agent() -> list[Any]:
    """A model call with a tool call, the tool, something else, and, last of all, the agent that names the session."""
    return [
        chat(id=2, parent=1, input=[says("How is the weather in Paris?")], output=[ASKS]),
        span(TOOL, id=3, parent=1, at=2, name="execute_tool get_weather"),
        span({"http.method": "GET"}, id=4, parent=3, at=2, name="GET"),
        span({**AGENT, **WHO}, id=1, at=0, lasts=9, name="invoke_agent planner"),
    ]


def recorded(folder: Path, *spans: Any, name: str = "r.json") -> Path:
    path = folder / name
    path.write_bytes(json_bytes(*spans) if ".json" in name else protobuf_bytes(*spans))
    return path


def rows(spanfuse: Spanfuse, *arguments: object) -> list[dict[str, Any]]:
    ran = spanfuse("inspect", *arguments, "--format", "json")
    assert ran.exit_code == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.mark.parametrize("name", ["r.json", "r.bin"])
def test_each_span_is_one_line_in_the_order_of_the_recording(spanfuse: Spanfuse, tmp_path: Path, name: str) -> None:
    found = rows(spanfuse, recorded(tmp_path, *run_of_an_agent(), name=name))
    assert [row["span_id"][-1] for row in found] == ["2", "3", "4", "1"]
    assert [row["kind"] for row in found] == ["llm", "tool", "other", "agent"]
    assert [row["counted"] for row in found] == [True, True, False, False]
    assert all(set(KEYS) <= set(row) for row in found)
    assert len({tuple(row) for row in found}) == 1


def test_a_model_call_tells_what_it_cost_and_which_tools_it_called(spanfuse: Spanfuse, tmp_path: Path) -> None:
    call = rows(spanfuse, recorded(tmp_path, *run_of_an_agent()))[0]
    assert (call["dialect"], call["reason"], call["content"]) == ("genai", "model call", "content")
    assert (call["provider"], call["model"]) == ("openai", "gpt-4o-mini")
    assert call["tokens"] == {"input": 100, "output": 10, "cache_read": 0, "cache_write": 0, "reasoning": 0}
    assert (call["cost_nano_usd"], call["cost_source"]) == (21_000, "computed")
    assert call["tool_calls"] == [{"name": "get_weather", "arguments": {"city": "Paris"}}]
    assert (call["error"], call["tool_name"], call["arguments"]) == (None, "", None)


def test_a_tool_execution_tells_its_tool_and_its_arguments(spanfuse: Spanfuse, tmp_path: Path) -> None:
    tool = rows(spanfuse, recorded(tmp_path, *run_of_an_agent()))[1]
    assert (tool["tool_name"], tool["arguments"], tool["tool_calls"]) == ("get_weather", {"city": "Paris"}, [])
    assert (tool["cost_nano_usd"], tool["cost_source"]) == (0, "")


def test_who_a_span_belongs_to_is_told_of_every_span_and_where_that_comes_from(
    spanfuse: Spanfuse, tmp_path: Path
) -> None:
    """Even of those that count for nothing, and where the span that says so came last."""
    found = rows(spanfuse, recorded(tmp_path, *run_of_an_agent()))
    who = {(row["session"], row["user"], row["team"], row["agent"]) for row in found}
    assert who == {("run-42", "ada", "research", "planner")}
    assert [row["session_source"] for row in found] == ["inherited", "inherited", "inherited", "explicit"]


def test_what_has_no_session_has_its_trace(spanfuse: Spanfuse, tmp_path: Path) -> None:
    (row,) = rows(spanfuse, recorded(tmp_path, chat()))
    assert (row["session"], row["session_source"]) == (f"trace:{row['trace_id']}", "trace")


def test_a_span_that_repeats_another_says_which(spanfuse: Spanfuse, tmp_path: Path) -> None:
    """The same call, seen by the framework's instrumentation and by the provider's."""
    both = [chat(id=1, lasts=3, input=[says("Hi")]), chat(id=2, parent=1, at=1, scope="com.anthropic.sdk.python")]
    outer, inner = rows(spanfuse, recorded(tmp_path, *both))
    assert (outer["counted"], inner["counted"]) == (True, False)
    assert outer["span_id"] in inner["reason"]


def test_a_span_that_comes_twice_counts_the_first_time(spanfuse: Spanfuse, tmp_path: Path) -> None:
    first, second = rows(spanfuse, recorded(tmp_path, chat(), chat()))
    assert (first["counted"], second["counted"]) == (True, False)
    assert second["reason"].startswith("delivered again")


def test_a_failure_has_its_type(spanfuse: Spanfuse, tmp_path: Path) -> None:
    failed = chat(error="no", attributes={"error.type": "429"})
    assert rows(spanfuse, recorded(tmp_path, failed))[0]["error"] == "429"


def test_a_span_without_ids_says_so(spanfuse: Spanfuse, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(json_bytes(chat(id=7)).decode().replace(f"{7:016x}", ""))
    (row,) = rows(spanfuse, path)
    assert (row["counted"], row["kind"], row["session"]) == (False, "other", "")
    assert "no trace or span id" in row["reason"]


def logged(name: str, body: dict[str, Any]) -> dict[str, Any]:
    """A log record of span 1."""
    return {
        "traceId": chat().trace_id,
        "spanId": f"{1:016x}",
        "timeUnixNano": "1",
        "eventName": name,
        "body": {"stringValue": json.dumps(body)},
    }


@pytest.mark.parametrize("place", ["beside", "given", "same file", "after"])
def test_content_that_was_logged_is_joined_to_its_span(spanfuse: Spanfuse, tmp_path: Path, place: str) -> None:
    spans, asked = json_bytes(chat()), {"tool_calls": [{"function": {"name": "f", "arguments": '{"a": 1}'}}]}
    records = [logged("gen_ai.user.message", {"content": "Hi"}), logged("gen_ai.choice", {"message": asked})]
    logs = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}).encode()
    path, beside = tmp_path / "r.traces.json", tmp_path / "r.logs.json"
    lines = {"same file": logs + b"\n" + spans, "after": spans + b"\n" + logs}
    path.write_bytes(lines.get(place, spans))
    given = [path]
    if place in ("beside", "given"):
        beside.write_bytes(logs)
        given += [beside] if place == "given" else []
    (row,) = rows(spanfuse, *given)
    assert row["content"] == "content"
    assert row["tool_calls"] == [{"name": "f", "arguments": {"a": 1}}]
    assert "Log records: 2 joined" in spanfuse("inspect", *given).stdout


def test_the_prices_of_the_configuration_hold(spanfuse: Spanfuse, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("pricing: {models: {gpt-4o-mini: {input_usd_per_mtok: 10, output_usd_per_mtok: 50}}}\n")
    (row,) = rows(spanfuse, recorded(tmp_path, chat()), "--config", config)
    assert row["cost_nano_usd"] == 1_500_000


def test_a_long_recording_is_read_in_windows_and_later_ones_know_earlier_parents(
    spanfuse: Spanfuse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spans_of, "MAX_SPANS", 2)
    agent = span({**AGENT, **WHO}, id=1, name="invoke_agent planner")
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"\n".join(json_bytes(s) for s in (agent, *(chat(id=n, parent=1) for n in range(2, 7)))))
    found = rows(spanfuse, path)
    assert len(found) == 6
    assert {row["session"] for row in found} == {"run-42"}


def test_a_pipe_is_read(tmp_path: Path) -> None:
    data = json_bytes(*run_of_an_agent())
    command = [sys.executable, "-m", "spanfuse_processor", "inspect", "-", "--format", "json"]
    ran = subprocess.run(command, input=data, capture_output=True, timeout=60, check=True)
    assert len(ran.stdout.splitlines()) == 4


def test_text_shows_the_trace_as_a_tree_within_80_columns_and_sums_up(spanfuse: Spanfuse, tmp_path: Path) -> None:
    ran = spanfuse("inspect", recorded(tmp_path, *run_of_an_agent(), chat(id=9, input="secret-123")))
    text = " ".join(ran.stdout.split())
    assert max(map(len, ran.stdout.splitlines())) <= 80
    assert "session run-42" in text
    assert 'calls get_weather {"city": "Paris"}' in text
    assert "2 model calls and 1 tool executions count, in 2 sessions: 200 tokens in, 20 out, $0.000042." in text
    assert "1 do not: no model call and no tool execution." in text
    agent, call, below = (
        next(line.index(name) for line in ran.stdout.splitlines() if name in line)
        for name in ("invoke_agent", "chat gpt-4o-mini", "GET")
    )
    assert agent < call < below
    assert "secret" not in ran.stdout
    assert "weather in Paris?" not in ran.stdout


def test_what_cannot_be_read_is_told_and_nothing_at_all_is_a_failure(spanfuse: Spanfuse, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"garbage\n" + json_bytes(chat()))
    ran = spanfuse("inspect", path, "--format", "json")
    assert (ran.exit_code, len(ran.stdout.splitlines())) == (0, 1)
    assert "r.jsonl:1" in ran.stderr
    path.write_bytes(b"garbage\n")
    ran = spanfuse("inspect", path)
    assert ran.exit_code == 1
    assert "nothing could be read" in ran.stderr

"""Claude Code's spans, whose attributes are its own."""

from __future__ import annotations

import json
from typing import Any

from spanfuse_processor.otlp.span import Span, SpanEvent
from tests.otlp.dialects.steps import ARGUMENTS, TOOL
from tests.otlp.fixtures import NOW_NS, call, calls, span

SCOPE = "com.anthropic.claude_code.tracing"
WHO = {"session.id": "s-1", "user.id": "u-1"}


def request(scope: str = SCOPE, events: list[SpanEvent] | None = None, id: int = 2, **attributes: Any) -> Span:
    given = {
        "span.type": "llm_request",
        "model": "claude-sonnet-4-5",
        "gen_ai.system": "anthropic",
        "input_tokens": 2,
        "output_tokens": 1200,
        "cache_read_tokens": 84_562,
        "cache_creation_tokens": 7_096,
        "stop_reason": "tool_use",
        "ttft_ms": 900,
        "success": True,
        **WHO,
        **attributes,
    }
    return span(given, id=id, parent=1, kind=1, scope=scope, name="claude_code.llm_request", events=events)


def tool(**attributes: Any) -> Span:
    given = {"span.type": "tool", "tool_name": "Bash", "tool_use_id": "toolu_1", **WHO, **attributes}
    events = attributes.pop("events", None)
    return span(given, id=3, parent=1, kind=1, at=2, scope=SCOPE, name="claude_code.tool", events=events)


def test_input_tokens_leave_the_cache_out() -> None:
    found = call(request())
    tokens = found.tokens
    assert (tokens.input, tokens.cache_read, tokens.cache_write) == (91_660, 84_562, 7_096)
    assert (found.provider, found.model, found.finish_reason) == ("anthropic", "claude-sonnet-4-5", "tool_calls")
    assert (found.session, found.user, found.ttft_ns) == ("s-1", "u-1", 900_000_000)
    assert call(request(input_tokens=90_000)).tokens.input == 181_658


def test_spans_are_told_by_their_type_and_name_in_any_scope() -> None:
    assert call(request(scope="")).tokens.output == 1200
    bare = request(scope="")
    del bare.attributes["span.type"]
    assert call(bare).tokens.output == 1200


def test_numbers_may_be_texts() -> None:
    found = call(request(input_tokens="2", output_tokens="1200", ttft_ms="900"))
    assert (found.tokens.input, found.tokens.output, found.ttft_ns) == (91_660, 1200, 900_000_000)


def test_the_cost_is_in_a_log_record_of_the_request() -> None:
    billed = SpanEvent("claude_code.api_request", NOW_NS, {"cost_usd": "0.125", "model": "claude-sonnet-4-5"})
    found = call(request(events=[billed]))
    assert (found.cost_nano_usd, found.cost_source) == (125_000_000, "reported")
    assert call(request()).cost_source == "computed"


def test_a_failure_is_told_by_its_own_attributes() -> None:
    failed: dict[str, Any] = {
        "success": False,
        "status_code": 529,
        "error": "Overloaded",
        "output_tokens": 0,
        "input_tokens": 0,
    }
    found = call(request(**failed, cache_read_tokens=0, cache_creation_tokens=0))
    assert (found.error_type, found.error_class, found.tokens.input) == ("error", "provider", 0)


def test_an_interaction_is_an_agent_and_a_tool_counts_once() -> None:
    """It has a span of its own, and in it one of the wait for permission, and one of the execution."""
    found = calls(
        span({"span.type": "interaction", **WHO}, id=1, kind=1, scope=SCOPE, name="claude_code.interaction", lasts=9),
        request(),
        tool(),
        span(
            {"span.type": "tool.blocked_on_user"}, id=4, parent=3, scope=SCOPE, name="claude_code.tool.blocked_on_user"
        ),
        span(
            {"span.type": "tool.execution", "tool_name": "Bash"},
            id=5,
            parent=3,
            scope=SCOPE,
            name="claude_code.tool.execution",
        ),
        span({"span.type": "hook"}, id=6, parent=1, scope=SCOPE, name="claude_code.hook"),
    )
    assert [(c.kind, c.called) for c in found] == [("llm", ()), ("tool", ("Bash",))]


def test_a_tools_arguments_are_its_command_or_its_whole_input() -> None:
    listed, again = call(tool(full_command="ls -la")), call(tool(full_command="ls -la /tmp"))
    assert listed.action != again.action
    whole = call(tool(tool_name=TOOL, tool_input=json.dumps(ARGUMENTS)))
    assert whole.action is not None
    assert whole.action.canon


def test_a_path_alone_does_not_tell_one_edit_from_another() -> None:
    found = call(tool(tool_name="Edit", file_path="/src/app.py"))
    assert (found.called, found.action.canon if found.action else "") == (("Edit",), "")


def test_a_tools_output_is_an_event_of_its_span() -> None:
    output = SpanEvent("tool.output", NOW_NS, {"output": "total 0", "bash_command": "ls"})
    found = call(
        span(
            {"span.type": "tool", "tool_name": "Bash", "full_command": "ls"},
            events=[output],
            scope=SCOPE,
            name="claude_code.tool",
        )
    )
    assert found.output is not None
    assert found.output.size == len("total 0")


def test_a_process_may_say_whose_all_its_spans_are() -> None:
    resource = {"session.id": "s-9", "user.id": "u-9", "department": "geo", "service.name": "claude-code"}
    bare = span(
        {"span.type": "llm_request", "model": "claude-sonnet-4-5"}, resource=resource, name="claude_code.llm_request"
    )
    found = call(bare)
    assert (found.session, found.session_source, found.user, found.team) == ("s-9", "inherited", "u-9", "geo")

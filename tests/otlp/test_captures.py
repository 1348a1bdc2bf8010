"""Recorded requests of real instrumentations against what is known to have happened.

The recordings are in the folder that SPANFUSE_CAPTURES names, or in `../shared/captures` beside the checkout. Each scenario
was run against the same endpoint: 1200 input tokens (10 more per tool result), 1024 of them cached, 50 output tokens, 20 of
them reasoning; Anthropic: 1500, 1024 read and 300 written, 50.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from spanfuse_processor.otlp.decode import decode, sniff
from spanfuse_schemas import Call, Message
from spanfuse_schemas.fingerprint import input_print
from tests.otlp.fixtures import NOW_NS, normaliser

FOLDER: Final = Path(os.environ.get("SPANFUSE_CAPTURES") or Path(__file__).parents[3] / "shared" / "captures")
DIALECTS: Final = ("openinference", "openllmetry", "genai_openai_official", "openai_v2")
ABSENT: Final = {"openai_v2": {"anthropic", "responses"}, "genai_openai_official": {"anthropic"}}
RECORDED: Final = [
    (dialect, scenario)
    for dialect in DIALECTS
    for scenario in ("chat", "tools", "stream", "error", "session", "anthropic", "responses")
    if scenario not in ABSENT.get(dialect, ())
]

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="no recordings here")


class Known(NamedTuple):
    """What an instrumentation is known not to record."""

    cache: bool = True
    """The tokens read from the cache."""
    reasoning: bool = True
    """Reasoning tokens."""
    streamed_reasoning: bool = True
    """Reasoning tokens of streams."""
    team: bool = True
    """The team."""


KNOWN: Final = {
    "openinference": Known(),
    "openllmetry": Known(streamed_reasoning=False),
    "genai_openai_official": Known(team=False),
    "openai_v2": Known(cache=False, reasoning=False, team=False),
}


def recorded(dialect: str, scenario: str, suffix: str = "bin") -> tuple[Call, ...]:
    data = (FOLDER / dialect / f"{scenario}.traces.{suffix}").read_bytes()
    return normaliser().batch(decode(data, sniff(data)), 2 * NOW_NS).calls


def model_calls(calls: tuple[Call, ...]) -> list[Call]:
    return [c for c in calls if c.kind == "llm"]


@pytest.mark.parametrize(("dialect", "scenario"), RECORDED)
def test_both_encodings_come_to_the_same_calls(dialect: str, scenario: str) -> None:
    assert recorded(dialect, scenario) == recorded(dialect, scenario, "json")


@pytest.mark.parametrize(("dialect", "scenario"), RECORDED)
def test_each_model_call_is_counted_once(dialect: str, scenario: str) -> None:
    anthropic = 3 if dialect == "openinference" else 2
    count = {"tools": 4, "session": 2, "anthropic": anthropic}.get(scenario, 1)
    assert len(model_calls(recorded(dialect, scenario))) == count


@pytest.mark.parametrize(("dialect", "scenario"), [r for r in RECORDED if r[1] not in ("error", "anthropic")])
def test_tokens_are_those_that_were_billed(dialect: str, scenario: str) -> None:
    known = KNOWN[dialect]
    reasoning = known.reasoning and (scenario != "stream" or known.streamed_reasoning)
    for i, call in enumerate(model_calls(recorded(dialect, scenario))):
        expected = 1200 + 10 * i if scenario == "tools" else 1200
        tokens = call.tokens
        assert (tokens.input, tokens.output, call.usage_estimated) == (expected, 50, False)
        assert (tokens.cache_read, tokens.reasoning) == (1024 if known.cache else 0, 20 if reasoning else 0)
        assert (call.cost_source, call.cost_nano_usd > 0) == ("computed", True)


@pytest.mark.parametrize("dialect", [d for d, scenario in RECORDED if scenario == "anthropic"])
def test_tokens_of_anthropic_include_those_of_its_cache(dialect: str) -> None:
    for call in model_calls(recorded(dialect, "anthropic")):
        tokens = call.tokens
        assert (tokens.input, tokens.cache_read, tokens.cache_write, tokens.output) == (1500, 1024, 300, 50)
        assert (call.provider, call.model) == ("anthropic", "claude-sonnet-4-5")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_agent_with_tools_takes_three_steps_and_answers(dialect: str) -> None:
    """Its tool spans and its messages tell the same story."""
    calls = recorded(dialect, "tools")
    models, tools = model_calls(calls), [c for c in calls if c.kind == "tool"]
    names = ["get_weather", "get_weather", "convert_temp"]
    called = [(name,) for name in names]
    assert [c.called for c in models] == [*called, ()]
    assert [c.answered for c in models] == [(), *called]
    assert [c.answers is None for c in models] == [True, False, False, False]
    assert [c.history for c in models] == sorted({c.history for c in models})
    assert [c.called for c in tools] == called
    assert {c.agent for c in calls} == {"geo_agent"}
    for model, tool, after in zip(models, tools, models[1:], strict=False):
        assert model.action == tool.action == after.answers
        assert tool.output is not None
        assert after.input == input_print([Message(role="tool", print=tool.output)])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_session_is_known_with_its_user_and_team(dialect: str) -> None:
    for call in recorded(dialect, "session"):
        assert (call.session, call.user) == ("sess-42", "user-7")
        assert call.team == ("payments" if KNOWN[dialect].team else "")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_bad_request_is_the_clients_failure_and_costs_nothing(dialect: str) -> None:
    (call,) = recorded(dialect, "error")
    assert call.error_type.endswith("BadRequestError")
    assert (call.error_class, call.cost_nano_usd, call.tokens.input) == ("client", 0, 0)
    assert (call.provider, call.model) == ("openai", "gpt-4o-mini")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_models_and_finish_reasons(dialect: str) -> None:
    (call,) = recorded(dialect, "chat")
    assert (call.provider, call.model, call.finish_reason) == ("openai", "gpt-4o-mini-2024-07-18", "stop")
    assert [c.finish_reason for c in model_calls(recorded(dialect, "tools"))] == [*["tool_calls"] * 3, "stop"]


@pytest.mark.parametrize("dialect", ["openinference", "openllmetry", "genai_openai_official"])
def test_a_stream_has_a_time_to_its_first_token(dialect: str) -> None:
    (call,) = recorded(dialect, "stream")
    assert 0 < call.ttft_ns < call.end_ns - call.start_ns

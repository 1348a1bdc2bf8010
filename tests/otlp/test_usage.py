"""Tokens: what is reported counts, whichever way it counts the cache and reasoning; the rest is estimated, and says so."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanfuse_processor.otlp.dialects.dialect import Dialect, Quirks
from spanfuse_processor.otlp.dialects.forms import Cut
from spanfuse_processor.otlp.dialects.genai import GENAI
from spanfuse_processor.otlp.usage import Ending, Usage, ending, finish_reason, read_usage, ttft_ns
from spanfuse_processor.otlp.values import MAX_TOKENS
from tests.otlp.fixtures import says, span

KEYS = {
    "input": "gen_ai.usage.input_tokens",
    "output": "gen_ai.usage.output_tokens",
    "cache_read": "gen_ai.usage.cache_read.input_tokens",
    "cache_write": "gen_ai.usage.cache_creation.input_tokens",
    "reasoning": "gen_ai.usage.reasoning.output_tokens",
    "total": "gen_ai.usage.total_tokens",
}
APART = dataclasses.replace(GENAI, quirks=Quirks(input_excludes_cache=True))
TWICE = dataclasses.replace(GENAI, quirks=Quirks(reasoning_twice="openai/.*"))


def used(
    reported: dict[str, Any],
    messages: Any = None,
    reply: Any = None,
    ended: Ending = "complete",
    dialect: Dialect = GENAI,
    model: str = "gpt-4o",
) -> Usage:
    attributes = {KEYS[name]: value for name, value in reported.items()} | {"gen_ai.request.model": model}
    return read_usage(span(attributes), dialect, messages, reply, ended, Counter())


def test_a_dialect_may_count_the_input_without_the_cache() -> None:
    """Of which the numbers themselves show nothing where the cache is the smaller part."""
    reported = {"input": 5000, "cache_read": 3000, "cache_write": 1000, "output": 1}
    assert used(reported).tokens.input == 5000
    assert used(reported, dialect=APART).tokens.input == 9000


def test_reasoning_that_was_added_twice_is_taken_off_once() -> None:
    reported = {"input": 10, "output": 70, "reasoning": 20}
    assert used(reported, dialect=TWICE, model="openai/gpt-4o").tokens.output == 50
    assert used(reported, dialect=TWICE, model="gemini-2.5-pro").tokens.output == 70
    assert used(reported, model="openai/gpt-4o").tokens.output == 70


@pytest.mark.parametrize(
    ("total", "whole", "output"),
    [
        (5050, 5000, 50),
        (9050, 9000, 50),
        (5070, 5000, 70),
        (9070, 9000, 70),
        (5030, 5000, 30),
        (0, 5000, 50),
        (7, 5000, 50),
    ],
)
def test_a_total_tells_what_the_other_numbers_hold(total: int, whole: int, output: int) -> None:
    """Whether the cache is among the input tokens, and reasoning among those of the output, once or twice; a total that fits
    nothing tells nothing."""
    reported = {"input": 5000, "cache_read": 3000, "cache_write": 1000, "output": 50, "reasoning": 20, "total": total}
    found = used(reported).tokens
    assert (found.input, found.output, found.reasoning) == (whole, output, 20)


def test_output_is_at_least_the_reasoning_that_was_reported() -> None:
    assert used({"reasoning": 20}, "question", "yes").tokens.output == 20


def test_content_that_was_cut_is_estimated_by_the_size_it_had() -> None:
    found = used({}, Cut(4000), Cut(400))
    assert (found.tokens.input, found.tokens.output, found.estimated) == (1000, 100, True)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("2025-11-24T16:00:00.250Z", 250_000_000),
        ('"2025-11-24T17:00:00.250000+01:00"', 250_000_000),
        ("2025-11-24T16:00:00.250", 0),  # in no known zone
        ("2025-11-24T15:59:59Z", 0),
        ("soon", 0),
        (12, 0),
    ],
)
def test_the_time_of_the_first_token_may_be_an_instant(value: Any, found: int) -> None:
    dialect = dataclasses.replace(GENAI, first_token_at=("first",))
    assert ttft_ns(span({"first": value}), dialect) == found


@pytest.mark.parametrize(
    ("error", "finish", "message", "ended"),
    [
        ("", "stop", "", "complete"),
        ("", "cancelled", "", "broken off"),
        ("CancelledError", "", "", "broken off"),
        ("AbortError", "", "", "broken off"),
        ("KeyboardInterrupt", "", "", "broken off"),
        ("error", "", "Request was cancelled by the client", "broken off"),
        ("error", "", "rate limit", "failed"),
        ("RateLimitError", "", "the queue was cancelled", "failed"),
        ("ConnectionAbortedError", "", "", "broken off"),
        ("BadRequestError", "", "", "failed"),
    ],
)
def test_how_a_call_ended(error: str, finish: str, message: str, ended: Ending) -> None:
    """By the type of the error; by its message where the type says nothing."""
    assert ending(span(error=message or None), error, finish) == ended


reports = st.fixed_dictionaries({}, optional={name: st.integers(0, MAX_TOKENS) for name in KEYS if name != "total"})
contents = st.one_of(st.none(), st.builds(Cut, st.integers(0, 10**6)), st.lists(st.builds(says, st.text(max_size=40))))


@given(reports, contents, contents, st.sampled_from(get_args(Ending)), st.sampled_from([GENAI, APART, TWICE]))
def test_parts_are_within_the_whole_and_nothing_reported_is_lost(
    reported: dict[str, int], messages: Any, reply: Any, ended: Ending, dialect: Dialect
) -> None:
    tokens, estimated = used(reported, messages, reply, ended, dialect)
    assert tokens.cache_read + tokens.cache_write <= tokens.input
    assert tokens.reasoning <= tokens.output
    assert tokens.input >= reported.get("input", 0)
    assert tokens.output + tokens.reasoning >= reported.get("output", 0)  # it may have been added twice
    assert (tokens.cache_read, tokens.cache_write) == (reported.get("cache_read", 0), reported.get("cache_write", 0))
    if ended == "failed":
        assert not estimated
    if ended == "broken off":
        assert estimated


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_either_way_of_counting_comes_to_the_same(fresh: int, read: int, write: int) -> None:
    """What is new, what was read and what was written make the input."""
    parts = {"cache_read": read, "cache_write": write, "output": 1}
    whole = used({"input": fresh + read + write, **parts})
    assert whole == used({"input": fresh, **parts}, dialect=APART)
    assert whole.tokens.input - whole.tokens.cache_read - whole.tokens.cache_write == fresh


def test_vectors_are_no_output() -> None:
    """Which some instrumentations record as what an embedding said."""
    attributes = {"gen_ai.operation.name": "embeddings", KEYS["input"]: 9}
    said = read_usage(span(attributes), GENAI, None, [says("0.1, 0.2", "assistant")], "complete", Counter())
    assert (said.tokens.input, said.tokens.output, said.estimated) == (9, 0, False)


@pytest.mark.parametrize(
    "key", ["gen_ai.tool.definitions", "llm.request.functions.0.parameters", "llm.tools.0.tool.json_schema"]
)
def test_definitions_of_tools_are_input_where_it_is_estimated(key: str) -> None:
    found = read_usage(span({key: "x" * 400}), GENAI, [says("hi" * 20)], None, "complete", Counter())
    assert (found.tokens.input, found.estimated) == (110, True)


@pytest.mark.parametrize(("called", "reason"), [(True, "tool_calls"), (False, "stop")])
def test_an_answer_that_is_complete_may_call_tools(called: bool, reason: str) -> None:
    """The Responses API says of either that it is completed."""
    part = {"type": "tool_call", "name": "f", "arguments": {}} if called else {"type": "text", "content": "Hi."}
    done = span({"gen_ai.response.finish_reasons": ["completed"]})
    assert finish_reason(done, GENAI, [{"role": "assistant", "parts": [part]}]) == reason


def test_nothing_was_reported_where_both_counts_are_zero() -> None:
    """As some do of streams: nobody asks nothing to be answered nothing."""
    found = used({"input": 0, "output": 0, "total": 0}, [says("x" * 40)], [says("y" * 20, "assistant")])
    assert (found.tokens.input, found.tokens.output, found.estimated) == (10, 5, True)


def test_what_langchain_says_of_a_reply_is_no_part_of_it() -> None:
    reply = {"role": "assistant", "content": "y" * 20, "response_metadata": {"headers": {"server": "x" * 400}}}
    assert used({"input": 10}, None, [reply]).tokens.output == 5

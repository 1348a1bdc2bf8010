"""What Python writes for a value is read back, and nothing that is sent can hurt."""

from __future__ import annotations

from typing import Any

import pytest

from spanfuse_processor.otlp.reprs import MAX_CHARS, fields_of_repr, looks_like_fields, python_value


@pytest.mark.parametrize(
    "value",
    [{"a": [1, 2.5, None, True], "b": {"c": "it's"}}, [], "text", -1, {"1": "x"}],
)
def test_values_of_json_are_read_back(value: Any) -> None:
    assert python_value(str(value) if not isinstance(value, str) else repr(value)) == value


def test_objects_are_their_fields() -> None:
    text = "[ResponseFunctionToolCall(arguments='{\"city\": 1}', call_id='c', usage=Usage(input=3), status=None)]"
    assert python_value(text) == [
        {"arguments": '{"city": 1}', "call_id": "c", "usage": {"input": 3}, "status": None},
    ]


@pytest.mark.parametrize(
    "text", ["", "a", "open('x').read()", "1 + 1", "{**a}", "lambda: 1", "f'{x}'", "{'a': {1}", "b'x'"]
)
def test_what_is_no_value_is_none(text: str) -> None:
    found = python_value(text)
    assert found is None or found == {}


@pytest.mark.parametrize(
    "text",
    ["[" * 30_000, "-" * 30_000 + "1", "1+" * 30_000 + "1", "a." * 30_000 + "b", "{1:" * 5_000, "not " * 15_000 + "1"],
)
def test_depth_without_end_is_refused(text: str) -> None:
    assert python_value(text) is None


def test_long_texts_are_left_alone() -> None:
    assert python_value(repr("x" * MAX_CHARS)) is None
    assert not looks_like_fields("a='" + "x" * MAX_CHARS)


def test_a_model_that_was_printed_is_its_fields() -> None:
    text = "content='{\"temp\": \"a=b it\\'s\"}' name='get_weather' extra={'a': 1} tool_call_id='c'"
    assert looks_like_fields(text)
    assert fields_of_repr(text) == {
        "content": '{"temp": "a=b it\'s"}',
        "name": "get_weather",
        "extra": {"a": 1},
        "tool_call_id": "c",
    }
    assert not looks_like_fields("a = b")
    assert not looks_like_fields("Paris")

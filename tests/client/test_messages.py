"""Messages of every form give the same prints."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from spanfuse.reading import kept, texts
from spanfuse.reading.messages import Conversation, new_input, read_actions, read_messages
from spanfuse.reading.texts import is_truncated, looks_failed, print_of
from spanfuse_schemas import wording
from spanfuse_schemas.fingerprint import fingerprint
from spanfuse_schemas.names import normal_name
from spanfuse_schemas.wording import share_key
from tests.support.effort import growth

Messages = list[dict[str, Any]]


def genai(arguments: Any = None, result: Any = "18 degrees", *, key: str = "response", role: str = "tool") -> Messages:
    call = {"type": "tool_call", "id": "c1", "name": "weather", "arguments": arguments or {"city": "Paris"}}
    return [
        {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
        {"role": "user", "parts": [{"type": "text", "content": "How warm is Paris?"}]},
        {"role": "assistant", "parts": [{"type": "text", "content": "Let me look."}, call]},
        {"role": role, "parts": [{"type": "tool_call_response", "id": "c1", key: result}]},
    ]


def openai(arguments: Any = '{"city": "Paris"}', result: Any = "18 degrees") -> Messages:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": arguments}}
    return [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "How warm is Paris?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": result},
    ]


def responses(result: Any = "18 degrees") -> Messages:
    return [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_text", "text": "How warm is Paris?"}]},
        {"type": "function_call", "id": "fc_9", "call_id": "c1", "name": "weather", "arguments": '{"city":"Paris"}'},
        {"type": "function_call_output", "call_id": "c1", "output": result},
    ]


def anthropic(result: Any = "18 degrees") -> Messages:
    call = {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Paris"}}
    return [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "How warm is Paris?"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": result}]},
    ]


SAME = [
    pytest.param(genai(), id="genai"),
    pytest.param(genai(arguments='{"city":"Paris"}'), id="genai with arguments as text"),
    pytest.param(genai(key="result", role="user"), id="pydantic-ai"),
    pytest.param(genai(key="content"), id="genai with content"),
    pytest.param(openai(), id="openai"),
    pytest.param(openai(arguments={"city": "Paris"}), id="openai with arguments as object"),
    pytest.param(openai(result=[{"type": "text", "text": "18 degrees"}]), id="openai with content parts"),
    pytest.param(responses(), id="responses"),
    pytest.param(anthropic(), id="anthropic"),
    pytest.param(anthropic([{"type": "text", "text": "18 degrees"}]), id="anthropic with content blocks"),
]


@pytest.mark.parametrize("messages", SAME)
def test_every_form_of_the_same_conversation_reads_the_same(messages: Messages) -> None:
    """Not only the canonical, also the exact hashes agree."""
    assert read_messages(messages) == read_messages(genai())


def test_a_tool_result_is_named_after_the_call_that_it_answers() -> None:
    found = read_messages(anthropic())
    assert found.history == 3
    assert [(a.tool, a.call_id) for a in found.prior] == [("weather", "c1")]
    assert [(m.role, m.tool, m.call_id, m.error) for m in found.messages] == [("tool", "weather", "c1", False)]


@pytest.mark.parametrize("form", [genai, openai, responses, anthropic])
def test_a_json_result_is_the_same_as_text_and_as_value(form: Any) -> None:
    """Some instrumentation keeps the object, some the text that went to the model."""
    value = {"temp": 18, "unit": "C"}
    as_text = form(result=json.dumps(value))
    assert read_messages(as_text).input == read_messages(genai(result=value)).input


def test_results_beside_a_text_of_the_user_come_first_and_are_of_role_tool() -> None:
    messages = anthropic()
    messages[-1]["content"].append({"type": "text", "text": "And London?"})
    assert [m.role for m in read_messages(messages).messages] == ["tool", "user"]


def test_without_an_assistant_message_everything_is_new_but_the_system_message() -> None:
    found = read_messages(openai()[:2])
    assert (found.history, [m.role for m in found.messages], found.prior) == (0, ["user"], ())
    assert found.input == new_input(prompt="How warm is Paris?")


def test_a_prompt_that_is_only_a_system_message_is_new_input() -> None:
    """Else an agent that is driven by its system message alone could loop unseen."""
    assert read_messages([{"role": "system", "content": "Go on."}]).input is not None


def test_a_conversation_that_ends_with_the_assistant_has_no_new_input() -> None:
    found = read_messages(openai()[:3])
    assert (found.history, found.input) == (3, None)
    assert found.prior[0].tool == "weather"


def test_parallel_calls_kept_as_items_in_a_row_are_one_turn() -> None:
    messages = responses()
    messages.insert(3, {"type": "function_call", "call_id": "c2", "name": "weather", "arguments": "{}"})
    assert [a.call_id for a in read_messages(messages).prior] == ["c1", "c2"]


def test_a_text_without_tool_calls_is_the_action_and_thoughts_are_not() -> None:
    parts = [{"type": "reasoning", "content": "hm"}, {"type": "text", "content": "18 degrees."}]
    assert read_actions([{"role": "assistant", "parts": parts}]) == read_actions(
        [{"role": "assistant", "content": "18 degrees."}]
    )


@pytest.mark.parametrize(
    ("result", "failed"),
    [
        ("Error: no such city", True),
        ("Error executing tool weather: boom", True),
        ("ValueError: bad", True),
        ("requests.exceptions.HTTPError: 404", True),
        ("Traceback (most recent call last):\n  File", True),
        ('{"error": "no such city"}', True),
        ({"error": {"code": 404}}, True),
        ({"status": "error"}, True),
        ('{"error": null, "temp": 18}', False),
        ("Error handling is described in chapter 4.", False),
        ("No errors found.", False),
        ("18 degrees", False),
        ("", False),
        ([1, 2], False),
    ],
)
def test_a_result_that_clearly_begins_as_an_error_is_one(result: Any, failed: bool) -> None:
    assert read_messages(genai(result=result)).messages[0].error is failed


def test_the_flag_of_the_provider_marks_an_error_whatever_the_text_says() -> None:
    messages = anthropic("18 degrees")
    messages[-1]["content"][0]["is_error"] = True
    assert read_messages(messages).messages[0].error


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("abc [truncated]", True),
        ("abc...[truncated 1200 chars]", True),
        ("abc <truncated due to size exceeding limit>", True),
        ("abc [TRUNCATED - Content exceeds 60KB limit]", True),
        ("abc ... (output truncated)", True),
        ("abc\n[...clipped 23685 chars, sha1 53a09188bfba...]", False),
        ("abc [truncated 1200 chars, sha256:53a09188bfba0011]", False),
        ("a list was truncated yesterday", False),
        ("abc...", False),
    ],
)
def test_a_text_cut_without_a_digest_has_no_identity(text: str, cut: bool) -> None:
    assert is_truncated(text) is cut
    found = new_input(prompt=text)
    assert found is not None
    assert (found.canon == "") is cut


def test_a_picture_is_known_by_its_data_whatever_form_it_has() -> None:
    data = "iVBORw0KGgo" * 100
    forms: list[dict[str, Any]] = [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + data}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}},
        {"type": "blob", "modality": "image", "mime_type": "image/png", "content": data},
    ]
    prints = {new_input([{"role": "user", "content": [{"type": "text", "text": "What is it?"}, f]}]) for f in forms}
    other = new_input(
        [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, {**forms[2], "content": "x"}]}]
    )
    assert len(prints) == 1
    assert other not in prints


@pytest.mark.parametrize("part", [{"type": "file", "file_id": "file_00000001"}, {"type": "uri", "uri": "https://x/1"}])
def test_files_with_different_ids_are_different(part: dict[str, str]) -> None:
    key = list(part)[1]
    one, other = ([{"role": "user", "parts": [p]}] for p in (part, {**part, key: part[key] + "2"}))
    assert new_input(one) != new_input(other)


def test_objects_of_a_client_library_read_like_their_dicts() -> None:
    """`messages.append(response.choices[0].message)` is how most agents go on."""

    class Reply(BaseModel):
        role: str = "assistant"
        content: str | None = None
        tool_calls: list[dict[str, Any]]

    messages: list[Any] = openai()
    messages[2] = Reply(tool_calls=messages[2]["tool_calls"])
    assert read_messages(messages) == read_messages(openai())


def test_names_and_roles_are_bounded_and_can_be_written_as_utf8() -> None:
    messages = genai()
    messages[2]["parts"][1] |= {"name": "\ud800" + "x" * 5000, "id": "\udfff"}
    messages[3]["parts"][0] |= {"id": "\udfff"}
    found = read_messages([*messages, {"role": "\ud800" * 1000, "content": "x"}])
    assert found.prior[0].tool == normal_name("\ud800" + "x" * 5000)
    assert len(found.prior[0].tool) == 256
    assert [m.role for m in found.messages] == ["tool", "user"]
    assert found.messages[0].tool == found.prior[0].tool


def test_a_result_without_an_id_answers_the_only_call() -> None:
    messages = openai()
    del messages[3]["tool_call_id"]
    assert read_messages(messages).messages[0].tool == "weather"


def test_a_long_text_that_comes_again_has_the_same_print_as_the_first_time() -> None:
    """Whether it comes as text or as what the text says, and however many came in between."""
    value = {"rows": [{"name": f"row {i}", "value": i} for i in range(100)]}
    first = print_of(value)
    for i in range(5000):
        print_of(f"{i} " * 200)
    assert print_of(value) == print_of(value) == first == fingerprint(value)
    assert len(texts._MEMO) <= texts._MEMO_SIZE


def test_what_is_kept_of_arguments_is_computed_once_and_again_under_another_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wording, "_key", wording._key)
    monkeypatch.setattr(wording, "_shared", wording._shared)
    call = [
        {
            "role": "assistant",
            "tool_calls": [{"name": "f", "arguments": '{"question": "Which town is largest", "n": 1}'}],
        }
    ]
    share_key("one")
    asked, answered = read_actions(call)[0], read_messages(call).prior[0]
    assert (asked.print, asked.wording) == (answered.print, answered.wording)
    share_key("another")
    again = read_messages(call).prior[0]
    assert again.print == answered.print
    assert again.wording != answered.wording
    assert again.fields != answered.fields


def test_what_is_remembered_of_arguments_is_bounded_and_holds_no_text() -> None:
    for i in range(kept._MAX_REMEMBERED + 10):
        kept.kept_of("f", {"secret": i})
    assert len(kept._REMEMBERED) <= kept._MAX_REMEMBERED
    assert "secret" not in repr(kept._REMEMBERED)


def test_a_very_long_text_is_told_by_its_ends_and_a_digest_of_the_rest() -> None:
    """So that 5 MB in one attribute hold nobody up: volatile ids count at the ends only, every other change anywhere."""
    log = [f"2026-01-01T00:00:00Z request /a/b/{i} served" for i in range(120_000)]
    other_each_time = itertools.count()
    assert growth(lambda lines: new_input(prompt="\n".join([str(next(other_each_time)), *log[:lines]])), 12_000) < 40
    first = new_input(prompt="\n".join(log))
    assert first is not None
    assert first.size > 5_000_000
    later = new_input(prompt="\n".join(["2026-02-02T11:11:11Z request /a/b/0 served", *log[1:]]))
    other = new_input(prompt="\n".join([*log[:60_000], "oops", *log[60_000:]]))
    assert later is not None
    assert other is not None
    assert (later.canon == first.canon, later.exact == first.exact) == (True, False)
    assert other.canon != first.canon


def test_nothing_gives_nothing() -> None:
    assert read_messages([]) == Conversation()
    assert new_input() is None
    assert new_input([]) is None
    assert not looks_failed(None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["role", "parts", "content", "type", "id", "name", "arguments", "tool_calls", "x"]), inner
        )
    ),
    max_leaves=20,
)


@given(st.lists(JSON, max_size=5))
def test_no_value_raises(messages: list[Any]) -> None:
    read_messages(messages)
    read_actions(messages)


def test_values_that_contain_themselves_do_not_raise() -> None:
    ring: dict[Any, Any] = {"type": "image", 5: "odd"}
    ring["image"] = ring
    for role in ("user", "assistant", "tool"):
        read_messages([{"role": role, "content": [ring, {"type": "new", "x": ring}], "tool_calls": [ring]}])


def test_deep_nesting_does_not_raise() -> None:
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]
    read_messages(genai(arguments=deep, result=deep))
    read_messages(genai(arguments="[" * 9000 + "]" * 9000))

"""What each dialect keeps where: the same conversation in each comes to the same prints."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spanfuse.reading.messages import new_input, read_messages
from spanfuse.reading.texts import print_of
from spanfuse_processor.otlp.dialects import DIALECTS, dialect_of
from spanfuse_processor.otlp.dialects.flat import unflatten
from spanfuse_schemas import Action
from spanfuse_schemas.fingerprint import action_print
from tests.otlp.fixtures import call, calls, span

CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
CONVERSATION: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "How warm is Paris?"},
    {"role": "assistant", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "18"},
]

OPENINFERENCE = {
    "openinference.span.kind": "LLM",
    "llm.model_name": "gpt-4o",
    "llm.provider": "openai",
    "llm.token_count.prompt": 100,
    "llm.token_count.completion": 10,
    "llm.input_messages.0.message.role": "system",
    "llm.input_messages.0.message.content": "Be brief.",
    "llm.input_messages.1.message.role": "user",
    "llm.input_messages.1.message.contents.0.message_content.type": "text",
    "llm.input_messages.1.message.contents.0.message_content.text": "How warm is Paris?",
    "llm.input_messages.2.message.role": "assistant",
    "llm.input_messages.2.message.tool_calls.0.tool_call.id": "c1",
    "llm.input_messages.2.message.tool_calls.0.tool_call.function.name": "weather",
    "llm.input_messages.2.message.tool_calls.0.tool_call.function.arguments": '{"city": "Paris"}',
    "llm.input_messages.3.message.role": "tool",
    "llm.input_messages.3.message.tool_call_id": "c1",
    "llm.input_messages.3.message.content": "18",
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.content": "18 degrees.",
}
OPENLLMETRY_OLD = {
    "llm.request.type": "chat",
    "gen_ai.system": "OpenAI",
    "gen_ai.response.model": "gpt-4o",
    "gen_ai.usage.prompt_tokens": 100,
    "gen_ai.usage.completion_tokens": 10,
    "gen_ai.prompt.0.role": "system",
    "gen_ai.prompt.0.content": "Be brief.",
    "gen_ai.prompt.1.role": "user",
    "gen_ai.prompt.1.content": '[{"type": "text", "text": "How warm is Paris?"}]',
    "gen_ai.prompt.2.role": "assistant",
    "gen_ai.prompt.2.tool_calls.0.id": "c1",
    "gen_ai.prompt.2.tool_calls.0.name": "weather",
    "gen_ai.prompt.2.tool_calls.0.arguments": '{"city": "Paris"}',
    "gen_ai.prompt.3.role": "tool",
    "gen_ai.prompt.3.tool_call_id": "c1",
    "gen_ai.prompt.3.content": "18",
    "gen_ai.completion.0.role": "assistant",
    "gen_ai.completion.0.content": "18 degrees.",
    "gen_ai.completion.0.finish_reason": "stop",
}
OPENLLMETRY_NEW = {
    "gen_ai.operation.name": "chat",
    "gen_ai.is_streaming": False,
    "gen_ai.provider.name": "openai",
    "gen_ai.response.model": "gpt-4o",
    "gen_ai.usage.input_tokens": 100,
    "gen_ai.usage.output_tokens": 10,
    "gen_ai.input.messages": json.dumps(CONVERSATION),
    "gen_ai.output.messages": '[{"role": "assistant", "parts": [{"type": "text", "content": "18 degrees."}]}]',
}
GENAI = {k: v for k, v in OPENLLMETRY_NEW.items() if k != "gen_ai.is_streaming"}

EVERY = [
    pytest.param("openinference", OPENINFERENCE, id="openinference"),
    pytest.param("openllmetry", OPENLLMETRY_OLD, id="openllmetry-old"),
    pytest.param("openllmetry", OPENLLMETRY_NEW, id="openllmetry-new"),
    pytest.param("genai", GENAI, id="genai"),
]


@pytest.mark.parametrize(("dialect", "attributes"), EVERY)
def test_the_same_conversation_comes_to_the_same_call(dialect: str, attributes: dict[str, Any]) -> None:
    assert dialect_of(span(attributes)).name == dialect
    found = call(span(attributes))
    read = read_messages(CONVERSATION)
    assert (found.history, found.input) == (3, new_input(CONVERSATION))
    assert (found.answers, found.answered) == (read.answers, ("weather",))
    assert (found.action, found.called) == (action_print([Action(print=print_of("18 degrees."))]), ())
    assert (found.provider, found.model, found.tokens.input, found.tokens.output) == ("openai", "gpt-4o", 100, 10)


def test_every_dialect_has_a_row_and_a_name_of_its_own() -> None:
    assert len({d.name for d in DIALECTS}) == len(DIALECTS)


class TestOpenInference:
    def test_hidden_messages_are_found_in_the_request_as_a_whole(self) -> None:
        attributes = {
            "openinference.span.kind": "LLM",
            "input.value": json.dumps({"model": "gpt-4o", "messages": CONVERSATION}),
            "output.value": json.dumps({"choices": [{"message": {"role": "assistant", "tool_calls": [CALL]}}]}),
        }
        found = call(span(attributes))
        assert found.input == new_input(CONVERSATION)
        assert found.action is not None
        assert (found.action, found.called) == (found.answers, ("weather",))

    def test_a_tool_call_told_twice_is_one_action(self) -> None:
        prefix = "llm.output_messages.0.message."
        twice = {
            prefix + "role": "assistant",
            prefix + "tool_calls.0.tool_call.id": "c1",
            prefix + "tool_calls.0.tool_call.function.name": "weather",
            prefix + "tool_calls.0.tool_call.function.arguments": '{"city": "Paris"}',
            prefix + "contents.0.message_content.type": "tool_use",
            prefix + "contents.0.tool_call.id": "c1",
            prefix + "contents.0.tool_call.function.name": "weather",
            prefix + "contents.0.tool_call.function.arguments": '{"city": "Paris"}',
        }
        kept = {k: v for k, v in OPENINFERENCE.items() if not k.startswith("llm.output")}
        only = {k: v for k, v in twice.items() if "tool_calls" not in k}
        for found in (call(span(kept | twice)), call(span(kept | only))):
            assert (found.action, found.called) == (read_messages(CONVERSATION).answers, ("weather",))

    def test_classes_of_tokens_are_found_in_the_response_where_older_versions_tell_none(self) -> None:
        usage = {"prompt_tokens_details": {"cached_tokens": 64}, "completion_tokens_details": {"reasoning_tokens": 4}}
        tokens = call(span(OPENINFERENCE | {"output.value": json.dumps({"usage": usage})})).tokens
        assert (tokens.input, tokens.cache_read, tokens.output, tokens.reasoning) == (100, 64, 10, 4)

    def test_a_request_whose_tokens_are_counted_is_not_sent(self) -> None:
        assert calls(span(OPENINFERENCE, name="messages.count_tokens")) == ()
        assert len(calls(span(OPENINFERENCE, name="messages.create"))) == 1

    def test_a_function_call_of_old(self) -> None:
        prefix = "llm.output_messages.0.message."
        said = {prefix + "function_call_name": "weather", prefix + "function_call_arguments_json": '{"city": "Paris"}'}
        kept = {k: v for k, v in OPENINFERENCE.items() if not k.startswith("llm.output")}
        assert call(span(kept | said | {prefix + "role": "assistant"})).action == read_messages(CONVERSATION).answers

    def test_metadata_names_session_user_and_team(self) -> None:
        metadata = json.dumps({"thread_id": "s", "user_id": "u", "team": "t"})
        found = call(span(OPENINFERENCE | {"metadata": metadata}))
        assert (found.session, found.user, found.team) == ("s", "u", "t")

    def test_the_model_asked_for_is_known_when_the_call_failed(self) -> None:
        attributes = {"openinference.span.kind": "LLM", "llm.invocation_parameters": '{"model": "gpt-4o"}'}
        assert call(span(attributes, error="x")).model == "gpt-4o"

    def test_an_agent_span_names_the_agent(self) -> None:
        agent = span({"openinference.span.kind": "AGENT"}, id=1, name="guide")
        chain = span({"openinference.span.kind": "CHAIN"}, id=2, parent=1, name="RunnableSequence")
        (found,) = calls(span(OPENINFERENCE, id=3, parent=2), chain, agent)
        assert found.agent == "guide"

    def test_a_tool(self) -> None:
        attributes = {
            "openinference.span.kind": "TOOL",
            "tool.name": "weather",
            "input.value": '{"city": "Paris"}',
            "output.value": "18",
        }
        found = call(span(attributes))
        assert found.action == call(span(OPENINFERENCE)).answers
        assert found.output == read_messages(CONVERSATION).messages[0].print


class TestOpenLLMetry:
    def test_association_properties_name_session_user_and_team(self) -> None:
        prefix = "traceloop.association.properties."
        found = call(
            span(OPENLLMETRY_NEW | {prefix + "session_id": "s", prefix + "user_id": "u", prefix + "team": "t"})
        )
        assert (found.session, found.user, found.team) == ("s", "u", "t")

    def test_a_tool_whose_result_is_json_within_json(self) -> None:
        attributes = {
            "traceloop.span.kind": "tool",
            "traceloop.entity.name": "weather",
            "traceloop.entity.input": '{"args": [], "kwargs": {"city": "Paris"}}',
            "traceloop.entity.output": '"{\\"temp\\": 18}"',
        }
        found = call(span(attributes))
        assert found.called == ("weather",)
        assert found.action == call(span(OPENLLMETRY_OLD)).answers
        assert found.output == print_of({"temp": 18})

    def test_an_agent_span_names_the_agent_and_a_workflow_does_not(self) -> None:
        flow = span({"traceloop.span.kind": "workflow", "traceloop.entity.name": "flow"}, id=1)
        agent = span({"traceloop.span.kind": "agent", "traceloop.entity.name": "guide"}, id=2, parent=1)
        found = calls(span(OPENLLMETRY_OLD, id=3, parent=2), span(OPENLLMETRY_OLD, id=4, parent=1, at=2), agent, flow)
        assert [c.agent for c in found] == ["guide", ""]


def test_indices_order_a_flattened_list_whatever_the_order_of_its_attributes() -> None:
    attributes = {"m.10.a": 3, "m.2.a": 2, "m.0.a": 1, "m.0.b.1": "y", "m.0.b.0": "x", "other": 1}
    assert unflatten(attributes, "m.") == [{"a": 1, "b": ["x", "y"]}, {"a": 2}, {"a": 3}]


@pytest.mark.parametrize("odd", [{"m.": 1}, {"m.x": 1}, {"m.0": 1, "m.0.a": 2}, {"m.0.a": 2, "m.0": 1}, {"m.-1.a": 1}])
def test_attributes_that_contradict_one_another_do_not_raise(odd: dict[str, Any]) -> None:
    unflatten(odd, "m.")


@pytest.mark.parametrize(
    "stated",
    [
        {"traceloop.entity.input": '{"tool_start": true, "inputs": {"q": %d}, "kwargs": {"verbose": false}}'},
        {"traceloop.entity.input": '{"args": [%d], "kwargs": {}}'},
        {"traceloop.entity.input": '{"args": [], "kwargs": {"q": %d}}'},
    ],
)
def test_openllmetry_tools_with_other_arguments_are_other_actions(stated: dict[str, str]) -> None:
    (key, text), kind = next(iter(stated.items())), {"traceloop.span.kind": "tool", "traceloop.entity.name": "search"}
    calls = [call(span({**kind, key: text % n, "traceloop.entity.output": '"ok"'})) for n in (1, 2, 1)]
    first, other, again = [c.action for c in calls]
    assert first == again != other


def test_openinference_takes_what_a_tool_was_given_not_the_schema_of_it() -> None:
    schema = '{"type": "object", "properties": {"q": {"type": "integer"}}}'
    kind = {"openinference.span.kind": "TOOL", "tool.name": "search", "tool.parameters": schema, "output.value": "ok"}
    first, other = [call(span({**kind, "input.value": json.dumps({"q": n})})).action for n in (1, 2)]
    assert first != other


def test_arguments_that_python_wrote_are_those_that_the_model_chose() -> None:
    """As LangChain hands them to its callbacks."""
    kind = {"openinference.span.kind": "TOOL", "tool.name": "weather"}
    found = call(span({**kind, "input.value": "{'city': 'Paris'}", "output.value": "18"}))
    assert found.action == read_messages(CONVERSATION).answers

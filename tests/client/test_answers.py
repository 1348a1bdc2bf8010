"""What a model answered is read from the response of whichever client, and from the pieces of a stream."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from anthropic.types import Message, RawMessageStreamEvent
from openai._models import construct_type
from openai.types import Completion, CreateEmbeddingResponse
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel

from spanfuse.reading.answers import Answer, read
from spanfuse.reading.gathered import Gathered
from spanfuse.reading.messages import read_actions
from tests.support.provider_api.answers import BODIES, EVENTS
from tests.support.provider_api.reply import Reply

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
TOOL = ("search", {"q": "weather in Paris"})
REPLY = Reply("Let me look.", (TOOL,), input_tokens=30, output_tokens=9, cached=10, reasoning=4, model="fake-2")

Typed = Callable[[Any], Any]


def of(model: Any) -> Typed:
    """As the clients make their objects: without validation."""
    return lambda body: construct_type(value=body, type_=model)


BODY_TYPES: dict[str, Any] = {
    CHAT: ChatCompletion, RESPONSES: Response, MESSAGES: Message,
    "/v1/completions": Completion, "/v1/embeddings": CreateEmbeddingResponse,
}  # fmt: skip
PIECE_TYPES: dict[str, Any] = {
    CHAT: ChatCompletionChunk, RESPONSES: ResponseStreamEvent, MESSAGES: RawMessageStreamEvent,
    "/v1/completions": Completion,
}  # fmt: skip


def pieces(path: str, reply: Reply, **asked: Any) -> Iterator[dict[str, Any]]:
    """The events of a stream."""
    for event in EVENTS[path](asked, reply, 1):
        for line in event.decode().splitlines():
            if line.startswith("data: {"):
                yield json.loads(line.removeprefix("data: "))


def added_up(found: Iterator[Any]) -> Answer:
    gathered = Gathered()
    for piece in found:
        gathered.add(piece)
    return gathered.answer()


def did(answer: Answer | None) -> list[tuple[str, str]]:
    """What the reply does, as the fingerprints see it: pairs of tool and print."""
    assert answer is not None
    assert answer.reply is not None
    return [(action.tool, action.print.exact) for action in read_actions(answer.reply)]


CALLED = [
    (
        "search",
        read_actions([{"role": "assistant", "tool_calls": [{"name": TOOL[0], "arguments": TOOL[1]}]}])[0].print.exact,
    )
]


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
@pytest.mark.parametrize("form", ["dict", "object"])
def test_a_whole_response_tells_its_reply_and_what_it_took(path: str, form: str) -> None:
    body = BODIES[path]({}, REPLY, 7)
    answer = read(body if form == "dict" else of(BODY_TYPES[path])(body))
    assert answer is not None
    assert (answer.input_tokens, answer.output_tokens, answer.cache_read) == (30, 9, 10)
    assert (answer.model, answer.response_id) == ("fake-2", body["id"])
    assert answer.reasoning == (0 if path == MESSAGES else 4)
    assert answer.finish_reason == {CHAT: "tool_calls", RESPONSES: "completed", MESSAGES: "tool_use"}[path]
    assert did(answer) == CALLED


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
@pytest.mark.parametrize("form", ["dict", "object"])
@pytest.mark.parametrize("reply", [REPLY, Reply("Only a text.", input_tokens=3, output_tokens=4)], ids=["tool", "text"])
def test_a_stream_adds_up_to_what_the_whole_response_says(path: str, form: str, reply: Reply) -> None:
    typed: Typed = of(PIECE_TYPES[path]) if form == "object" else dict
    asked = {"stream_options": {"include_usage": True}}
    whole = read(BODIES[path](asked, reply, 1))
    summed = added_up(map(typed, pieces(path, reply, **asked)))
    assert whole is not None
    for name in ("model", "response_id", "input_tokens", "output_tokens", "cache_read", "reasoning", "finish_reason"):
        assert getattr(summed, name) == getattr(whole, name), name
    assert did(summed) == did(whole)


def test_a_stream_without_its_usage_tells_the_reply_and_no_tokens() -> None:
    answer = added_up(pieces(CHAT, REPLY))
    assert (answer.input_tokens, answer.output_tokens) == (None, None)
    assert did(answer) == CALLED


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
def test_a_stream_that_ends_early_tells_what_came(path: str) -> None:
    until = {CHAT: 3, RESPONSES: 6, MESSAGES: 5}[path]
    answer = added_up(piece for n, piece in enumerate(pieces(path, Reply("one two three"))) if n < until)
    assert did(answer) == [("", read_actions([{"role": "assistant", "content": "one two "}])[0].print.exact)]


def test_tool_calls_in_parallel_are_added_up_by_index() -> None:
    deltas = [
        {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "left", "arguments": ""}}]},
        {"tool_calls": [{"index": 1, "id": "b", "function": {"name": "right", "arguments": ""}}]},
        {
            "tool_calls": [
                {"index": 1, "function": {"arguments": '{"n":'}},
                {"index": 0, "function": {"arguments": "{}"}},
            ]
        },
        {"tool_calls": [{"index": 1, "function": {"arguments": "2}"}}]},
    ]
    answer = added_up({"choices": [{"index": 0, "delta": delta}]} for delta in deltas)
    assert answer.reply is not None
    calls = [(call["id"], call["function"]) for call in answer.reply[0]["tool_calls"]]
    assert calls == [("a", {"name": "left", "arguments": "{}"}), ("b", {"name": "right", "arguments": '{"n":2}'})]


def test_each_choice_is_a_message_of_its_own() -> None:
    answer = added_up({"choices": [{"index": n, "delta": {"content": f"{n}"}}]} for n in (0, 1, 0, 1))
    assert [message["content"] for message in answer.reply or ()] == ["00", "11"]


@pytest.mark.parametrize("form", ["dict", "object"])
def test_legacy_completions_and_embeddings_are_read(form: str) -> None:
    def given(path: str) -> Any:
        body = BODIES[path]({"input": ["a", "b"], "model": "fake-1"}, Reply("All is well."), 1)
        return body if form == "dict" else of(BODY_TYPES[path])(body)

    text, embedding = read(given("/v1/completions")), read(given("/v1/embeddings"))
    assert text is not None
    assert embedding is not None
    assert text.reply == [{"role": "assistant", "content": "All is well."}]
    assert (embedding.reply, embedding.input_tokens, embedding.output_tokens) == (None, 12, 0)
    streamed = added_up(map(of(Completion), pieces("/v1/completions", Reply("All is well."))))
    assert streamed.reply == text.reply


class LiteLlm(BaseModel):
    """As LiteLLM's `ModelResponse` keeps its cost."""

    id: str = "chatcmpl-1"
    choices: list[Any] = []
    usage: Any = None
    _hidden_params: dict[str, Any] = {"response_cost": 0.0125}


def test_the_cost_is_read_where_a_library_or_gateway_tells_it() -> None:
    routed = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "cost": 0.5}}
    assert [answer.cost_usd for answer in map(read, (LiteLlm(), routed, {"choices": []})) if answer] == [
        0.0125,
        0.5,
        None,
    ]


def test_what_litellm_finds_in_its_cache_costs_nothing() -> None:
    found = LiteLlm()
    found._hidden_params = {"response_cost": 0.0125, "cache_hit": True}
    answer = read(found)
    assert answer is not None
    assert answer.cost_usd == 0


def test_what_anthropic_reads_from_and_writes_to_its_cache_is_input() -> None:
    usage = {"input_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20, "output_tokens": 3}
    answer = read({"role": "assistant", "content": [], "usage": usage})
    assert answer is not None
    assert (answer.input_tokens, answer.cache_read, answer.cache_write) == (125, 100, 20)


def test_litellm_counts_the_cache_among_the_input_already() -> None:
    usage = {
        "prompt_tokens": 125,
        "completion_tokens": 3,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 20,
    }
    answer = read({"choices": [], "usage": usage | {"prompt_tokens_details": {"cached_tokens": 100}}})
    assert answer is not None
    assert (answer.input_tokens, answer.cache_read, answer.cache_write) == (125, 100, 20)


def test_a_message_of_langchain_tells_its_usage() -> None:
    usage = {
        "input_tokens": 9,
        "output_tokens": 4,
        "input_token_details": {"cache_read": 2},
        "output_token_details": {"reasoning": 1},
    }
    answer = read({"type": "ai", "content": "hi", "usage_metadata": usage})
    assert answer == Answer([{"type": "ai", "content": "hi", "usage_metadata": usage}], "", "", 9, 4, 2, 0, 1)


def test_plain_texts_messages_and_lists_are_answers() -> None:
    said = {"role": "assistant", "content": "yes"}
    assert [answer.reply for answer in map(read, ("yes", said, [said])) if answer] == [[said]] * 3
    assert read(None) is None
    assert added_up(iter(["All ", "is ", "well."])).reply == [{"role": "assistant", "content": "All is well."}]


class Hostile:
    """An object that fails at whatever it is asked."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


@pytest.mark.parametrize(
    "what",
    [
        Hostile(), object(), 7, b"bytes", [], {}, {"choices": [None]}, {"choices": []}, {"choices": 3}, {"usage": "much"},
        {"choices": [{"delta": 1}]}, {"choices": [{"delta": {"tool_calls": [None, 5]}}]}, {"type": "content_block_delta"},
        {"type": "content_block_start"}, {"type": "message_start"}, {"type": "response.completed"}, {"type": 3},
        {"usage": {"prompt_tokens": -1, "completion_tokens": "2"}}, SimpleNamespace(choices=[SimpleNamespace()]),
    ],
    ids=range(19),
)  # fmt: skip
def test_nothing_that_comes_makes_it_fail(what: Any) -> None:
    answer = read(what)
    assert answer is None or (answer.input_tokens, answer.output_tokens) == (None, None)
    assert isinstance(added_up(iter([what, "and on"])), Answer)

"""OpenInference (Arize Phoenix and the instrumentations that follow it)."""

from __future__ import annotations

from typing import Any, Final

from spanfuse_processor.otlp.dialects.dialect import (
    AGENT,
    CACHE_READ,
    CACHE_WRITE,
    FINISH,
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    REASONING,
    SESSION,
    TOOL_ARGUMENTS,
    TOOL_RESULT,
    USER,
    AgentSpan,
    Cut,
    Dialect,
    Messages,
    Role,
)
from spanfuse_processor.otlp.dialects.flat import unflatten
from spanfuse_processor.otlp.dialects.genai import as_messages
from spanfuse_processor.otlp.span import Span
from spanfuse_processor.otlp.values import JsonKey

KIND: Final = "openinference.span.kind"

_ROLES: Final[dict[str, Role]] = {
    "LLM": "llm",
    "EMBEDDING": "llm",
    "TOOL": "tool",
    "AGENT": "agent",
    "CHAIN": "agent",
}


def _messages(span: Span) -> Messages:
    found = unflatten(span.attributes, "llm.input_messages.")
    return [_message(item) for item in found] if found else _value(span, "input.value", "user", ("messages", "input"))


def _reply(span: Span) -> Messages:
    found = unflatten(span.attributes, "llm.output_messages.")
    return [_message(item) for item in found] if found else _value(span, "output.value", "assistant", ("output",))


def _value(span: Span, key: str, role: str, fields: tuple[str, ...]) -> Messages:
    """From the request or response as a whole, where the messages were hidden or not taken apart."""
    found = as_messages(span.attributes.get(key), role)
    if found is None or isinstance(found, Cut) or len(found) != 1 or not isinstance(found[0], dict):
        return found
    body = found[0]
    inner = next((body[field] for field in fields if field in body), None)
    if inner is None and isinstance(body.get("choices"), list):
        inner = [choice.get("message") for choice in body["choices"] if isinstance(choice, dict)]
    return found if inner is None else as_messages(inner, role)


def _message(item: Any) -> dict[str, Any]:
    """As OpenAI writes it."""
    inner = item.get("message") if isinstance(item, dict) else None
    message: dict[str, Any] = dict(inner) if isinstance(inner, dict) else {}
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        message["tool_calls"] = [_inner(call, "tool_call") for call in calls]
    contents = message.pop("contents", None)
    if isinstance(contents, list) and not message.get("content"):
        parts = [_part(content) for content in contents]
        message["content"] = [p for p in parts if not (calls and p.get("type") == "tool_use")]
    return message


def _inner(item: Any, key: str) -> Any:
    return item[key] if isinstance(item, dict) and isinstance(item.get(key), dict) else item


def _part(content: Any) -> dict[str, Any]:
    """A content part; a tool call among the parts has its call beside its type."""
    if not isinstance(content, dict):
        return {"type": "text", "text": str(content)}
    part = _inner(content, "message_content")
    return {**part, **content["tool_call"]} if isinstance(content.get("tool_call"), dict) else dict(part)


OPENINFERENCE: Final = Dialect(
    name="openinference",
    detect=lambda span: KIND in span.attributes,
    messages=_messages,
    reply=_reply,
    roles=((KIND, _ROLES),),
    operation=("gen_ai.operation.name", KIND),
    session=(*SESSION, *(JsonKey("metadata", f) for f in ("session_id", "thread_id", "conversation_id"))),
    user=(*USER, JsonKey("metadata", "user_id")),
    agent=(*AGENT, JsonKey("metadata", "lc_agent_name"), "graph.node.id"),
    agent_span=AgentSpan(KIND, "AGENT"),
    provider=("llm.provider", "llm.system", "gen_ai.provider.name", "gen_ai.system"),
    response_model=("llm.response.model_name", "llm.model_name", "embedding.model_name", "gen_ai.response.model"),
    request_model=("llm.request.model_name", JsonKey("llm.invocation_parameters", "model"), "gen_ai.request.model"),
    response_id=("gen_ai.response.id", JsonKey("output.value", "id")),
    input_tokens=("llm.token_count.prompt", *INPUT_TOKENS),
    output_tokens=("llm.token_count.completion", *OUTPUT_TOKENS),
    cache_read=(
        "llm.token_count.prompt_details.cache_read",
        "llm.token_count.prompt_details.cache_input",
        *CACHE_READ,
    ),
    cache_write=("llm.token_count.prompt_details.cache_write", *CACHE_WRITE),
    reasoning=("llm.token_count.completion_details.reasoning", *REASONING),
    finish=("llm.finish_reason", *FINISH),
    ttft_events=("First Token Stream Event",),
    tool_name=("tool.name", "gen_ai.tool.name"),
    tool_arguments=(*TOOL_ARGUMENTS, "input.value", "tool.parameters"),
    tool_result=(*TOOL_RESULT, "output.value"),
    tool_call_id=("tool_call.id", "tool.id", "gen_ai.tool.call.id"),
)

"""OpenLLMetry (Traceloop): new versions write GenAI messages, old ones `gen_ai.prompt.N.*`."""

from __future__ import annotations

from typing import Any, Final

from spanfuse_processor.otlp.dialects import genai
from spanfuse_processor.otlp.dialects.dialect import (
    FINISH,
    OPERATIONS,
    SESSION,
    TEAM,
    TOOL_ARGUMENTS,
    TOOL_RESULT,
    USER,
    AgentSpan,
    Dialect,
    Messages,
    Role,
)
from spanfuse_processor.otlp.dialects.flat import unflatten
from spanfuse_processor.otlp.span import Span
from spanfuse_processor.otlp.values import JsonKey

_REQUEST_TYPES: Final[dict[str, Role]] = {"chat": "llm", "completion": "llm", "embedding": "llm", "rerank": "other"}
_SPAN_KINDS: Final[dict[str, Role]] = {"tool": "tool", "agent": "agent", "workflow": "agent", "task": "agent"}


def _detect(span: Span) -> bool:
    attributes = span.attributes
    return (
        "llm.request.type" in attributes
        or "gen_ai.is_streaming" in attributes
        or "gen_ai.prompt.0.role" in attributes
        or "gen_ai.prompt.0.content" in attributes
        or any(key.startswith("traceloop.") for key in attributes)
    )


def _messages(span: Span) -> Messages:
    if "gen_ai.input.messages" in span.attributes:
        return genai.messages(span)
    found = unflatten(span.attributes, "gen_ai.prompt.")
    return [_message(item, "user") for item in found] if found else genai.messages(span)


def _reply(span: Span) -> Messages:
    if "gen_ai.output.messages" in span.attributes:
        return genai.reply(span)
    found = unflatten(span.attributes, "gen_ai.completion.")
    return [_message(item, "assistant") for item in found] if found else genai.reply(span)


def _message(item: Any, role: str) -> dict[str, Any]:
    """As OpenAI writes it; a list of parts was written as JSON text."""
    message: dict[str, Any] = dict(item) if isinstance(item, dict) else {"content": item}
    message.setdefault("role", role)
    content = message.get("content")
    if isinstance(content, str) and content[:2] == "[{":
        parts = genai.as_messages(content, role)
        if isinstance(parts, list) and all(isinstance(p, dict) and "type" in p for p in parts):
            message["content"] = parts
    return message


def _properties(*names: str) -> tuple[str, ...]:
    return tuple(f"traceloop.association.properties.{name}" for name in names)


OPENLLMETRY: Final = Dialect(
    name="openllmetry",
    detect=_detect,
    messages=_messages,
    reply=_reply,
    roles=(
        ("gen_ai.operation.name", OPERATIONS),
        ("llm.request.type", _REQUEST_TYPES),
        ("traceloop.span.kind", _SPAN_KINDS),
    ),
    operation=("gen_ai.operation.name", "llm.request.type"),
    session=(*SESSION, *_properties("session_id", "conversation_id", "chat_id", "thread_id")),
    user=(*USER, *_properties("user_id", "customer_id"), "llm.user"),
    team=(*TEAM, *_properties("team", "team_id")),
    agent_span=AgentSpan("traceloop.span.kind", "agent", ("traceloop.entity.name",)),
    response_model=("gen_ai.response.model", "llm.response.model"),
    finish=(*FINISH, "gen_ai.completion.0.finish_reason"),
    tool_name=("gen_ai.tool.name", "traceloop.entity.name"),
    tool_arguments=(
        *TOOL_ARGUMENTS,
        JsonKey("traceloop.entity.input", "inputs"),  # LangChain writes its callback's own kwargs beside them
        JsonKey("traceloop.entity.input", "kwargs", unless="args"),
        "traceloop.entity.input",
    ),
    tool_result=(*TOOL_RESULT, JsonKey("traceloop.entity.output", "output"), "traceloop.entity.output"),
)

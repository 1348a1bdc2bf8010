"""What a span is, by the roles of its dialect."""

from __future__ import annotations

from spanfuse_processor.otlp.dialects.dialect import Dialect, Role, Roles
from spanfuse_processor.otlp.span import KIND_CLIENT, STATUS_ERROR, Span


def role_of(span: Span, dialect: Dialect) -> Role:
    """As the span says; one that only began a stream is no call."""
    role, answered = _stated_role(span, dialect), dialect.answered
    begins = answered and role == "llm" and span.status_code != STATUS_ERROR and answered.isdisjoint(span.attributes)
    return "other" if begins else role


def _stated_role(span: Span, dialect: Dialect) -> Role:
    """By the first attribute whose value is known; a span whose values nobody knows is no call."""
    stated = False
    for roles in dialect.roles:
        value = span.attributes.get(roles.attribute) if roles.attribute else span.name
        if isinstance(value, str) and value:
            stated = stated or bool(roles.attribute)
            role = _role(roles, value)
            if role is not None:
                return role
    if stated:
        return "other"
    return dialect.default_role or _by_operation(span)


def _role(roles: Roles, value: str) -> Role | None:
    found = roles.values.get(value) or roles.values.get(value.strip('"').lower())
    return found or next((role for key, role in roles.values.items() if "*" in key and _like(value, key)), None)


def _like(value: str, key: str) -> bool:
    return value.startswith(key[:-1]) if key[-1] == "*" else value.endswith(key[1:])


def _by_operation(span: Span) -> Role:
    """Of spans that do not say: as older GenAI instrumentation wrote them."""
    attributes = span.attributes
    if "gen_ai.tool.name" in attributes:
        return "tool"
    asks = "gen_ai.request.model" in attributes or "gen_ai.response.model" in attributes
    return "llm" if asks and span.kind == KIND_CLIENT else "other"

"""What a span is, by the roles of its dialect."""

from __future__ import annotations

from spanfuse_processor.otlp.dialects.dialect import Dialect, Role, Roles, role_by_operation
from spanfuse_processor.otlp.span import Span


def role_of(span: Span, dialect: Dialect) -> Role:
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
    return dialect.default_role or role_by_operation(span)


def _role(roles: Roles, value: str) -> Role | None:
    found = roles.values.get(value) or roles.values.get(value.strip('"').lower())
    return found or next((role for key, role in roles.values.items() if "*" in key and _like(value, key)), None)


def _like(value: str, key: str) -> bool:
    return value.startswith(key[:-1]) if key[-1] == "*" else value.endswith(key[1:])

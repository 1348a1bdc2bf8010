"""Messages that were flattened into attributes: `llm.input_messages.0.message.role` and the like."""

from __future__ import annotations

from typing import Any, Final

_MAX_DEPTH: Final = 12


def unflatten(attributes: dict[str, Any], prefix: str) -> list[Any]:
    """The list whose leaves are the attributes `prefix` + `<index>.<path>`."""
    root: dict[str, Any] = {}
    size = len(prefix)
    for key, value in attributes.items():
        if key.startswith(prefix):
            _put(root, key[size:].split("."), value)
    found = _lists(root)
    return found if isinstance(found, list) else []


def _put(node: dict[str, Any], path: list[str], value: Any) -> None:
    if len(path) > _MAX_DEPTH:
        return
    for part in path[:-1]:
        inner = node.setdefault(part, {})
        if not isinstance(inner, dict):
            return
        node = inner
    node.setdefault(path[-1], value)


def _lists(node: Any) -> Any:
    """Dicts whose keys are all numbers become lists, in the order of the numbers."""
    if not isinstance(node, dict):
        return node
    if node and all(key.isdecimal() and len(key) < 10 for key in node):
        return [_lists(node[key]) for key in sorted(node, key=int)]
    return {key: _lists(value) for key, value in node.items()}

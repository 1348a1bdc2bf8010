"""What Python writes for a value, read back: some instrumentations put `str(value)` where JSON belongs."""

from __future__ import annotations

import ast
import re
from typing import Any, Final

MAX_CHARS: Final = 65_536
"""Longer texts are left alone, characters: reading Python costs many times what JSON does."""

_FIELD: Final = re.compile(r"(\w+)=('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|.*?)(?:\Z| (?=\w+=))", re.DOTALL)
_BEGINNING: Final = re.compile(r"\w{1,64}=['\"\[{]")


def python_value(text: str) -> Any:
    """The value of a literal; objects such as `Usage(input=3)` become dicts. `None` for anything else."""
    if len(text) > MAX_CHARS:
        return None
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def looks_like_fields(text: str) -> bool:
    """Whether a text begins as `fields_of_repr` reads it."""
    return bool(_BEGINNING.match(text)) and len(text) <= MAX_CHARS


def fields_of_repr(text: str) -> dict[str, Any]:
    """The fields of a pydantic model as `str()` writes it: `content='x' tool_call_id='1'`."""
    return {found[1]: python_value(found[2]) for found in _FIELD.finditer(text)}


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Dict):
        return {_key(k): _value(v) for k, v in zip(node.keys, node.values, strict=True)}
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return [_value(item) for item in node.elts]
    if isinstance(node, ast.Call):
        return {word.arg: _value(word.value) for word in node.keywords if word.arg}
    value = ast.literal_eval(node)
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise ValueError("no value of JSON")


def _key(node: ast.expr | None) -> str:
    return str(_value(node)) if node is not None else ""

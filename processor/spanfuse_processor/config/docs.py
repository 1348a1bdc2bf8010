"""The reference of the configuration, made from its models:

`python -m spanfuse_processor.config.docs > docs/configuration.md`
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from spanfuse_processor.config.models import Config
from spanfuse_processor.config.walk import models_in

_HEAD: Final = """\
<!-- Made from the models by `python -m spanfuse_processor.config.docs > docs/configuration.md`; do not edit. -->
# Configuration

One YAML file, given with `--config`; without one, or with an empty one, the defaults run. A key with nothing behind it means
its default. Unknown keys are errors. `${env:VAR}` is replaced by an environment variable, `${env:VAR:-default}` by a default
where it is unset or empty; `$$` is a dollar sign. `spanfuse validate --config FILE` prints every problem with its line.
"""
_DEEPEST: Final = 4
"""Level of headings below which none is smaller."""
_TELLING: Final = 5
"""Words that a sentence has which says more than a title."""
_NAMES: Final = {str: "text", int: "integer", float: "number", bool: "true or false", SecretStr: "secret text"}

_ELSEWHERE: Final = frozenset({"detectors.budget.session"})
"""Parts of a model that are set at another place."""


def markdown() -> str:
    """The whole reference."""
    return "\n".join([_HEAD, _overview(), *_sections(Config, "", "")])


def _overview() -> str:
    rows = "".join(f"| [`{name}`](#{name}) | {_text(field)} |\n" for name, field in Config.model_fields.items())
    return f"| section | |\n|---|---|\n{rows}"


def _sections(model: type[BaseModel], path: str, about: str, level: int = 1) -> Iterator[str]:
    """The tables of a model and of those below it."""
    below: list[tuple[type[BaseModel], str, str]] = []
    rows = []
    for name, field in model.model_fields.items():
        key = field.alias or name
        here = f"{path}.{key}" if path else key
        inner = models_in(field.annotation)
        if here in _ELSEWHERE:
            continue
        if inner:
            below.append((inner[0], here + _suffix(field.annotation), _text(field)))
        else:
            rows.append(f"| `{key}` | {_type(field.annotation)}{_bounds(field)} | {_default(field)} | {_text(field)} |")
    if path:
        rule = path.removeprefix("detectors.")
        more = f" [More](rules/{rule}.md)." if rule != path else ""
        yield f"{'#' * min(level, _DEEPEST)} `{path}`\n\n{_told(about, _doc(model))}{more}\n"
    if rows:
        yield "| key | value | default | |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"
    if named := getattr(model, "NAMED", None):
        below.append((named, f"{path}.SCOPE/NAME", "By name."))
    for inner_model, here, text in below:
        yield from _sections(inner_model, here, text, level + 1)


def _told(about: str, doc: str) -> str:
    """What the model says of itself, then what its field adds to it."""
    known = _words(doc)
    added = [
        part
        for part in re.split(r"(?<=\.) ", about)
        if not doc or part.startswith("Default") or (len(_words(part)) >= _TELLING and not _words(part) <= known)
    ]
    return " ".join(filter(None, [doc, *added]))


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def _suffix(annotation: Any) -> str:
    """How a key leads to a model: directly, by position, or by a name of the operator's."""
    origin = get_origin(annotation)
    return {tuple: "[]", dict: ".NAME"}.get(origin, "") if origin else ""


def _doc(model: type[BaseModel]) -> str:
    return " ".join((model.__doc__ or "").split())


def _text(field: FieldInfo) -> str:
    return " ".join((field.description or "—").split()).replace("|", "\\|")


def _type(annotation: Any) -> str:
    if annotation in _NAMES:
        return _NAMES[annotation]
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in inner)
    if origin in (Union, UnionType):
        return " or ".join(_type(a) for a in inner if a is not type(None))
    if origin is dict:
        return f"{_type(inner[0])} → {_type(inner[1])}"
    if origin is tuple:
        return f"list of {_type(inner[0])}"
    if origin is Annotated:
        return _type(inner[0])
    return "settings" if annotation is Any else str(getattr(annotation, "__name__", annotation))


def _bounds(field: FieldInfo) -> str:
    signs = (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<"))
    found = [
        f"{sign} {value:g}"
        for m in field.metadata
        for name, sign in signs
        if (value := getattr(m, name, None)) is not None
    ]
    return f", {', '.join(found)}" if found else ""


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or value in ({}, ()):
        return "none"
    if isinstance(value, tuple):
        return ", ".join(f"`{one}`" for one in value)
    if isinstance(value, SecretStr) or value == "":
        return '`""`'
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


if __name__ == "__main__":
    print(markdown(), end="")

"""Content to fingerprints: the only place where the texts of a span are looked at, and the last that sees them."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from spanfuse.reading.drift import sketch
from spanfuse.reading.messages import FINGERPRINT_ATTRIBUTE, Prints, read_actions
from spanfuse.reading.prints import few, fields_of, input_prints, tool_prints
from spanfuse.reading.texts import is_hidden
from spanfuse_processor.otlp.dialects.dialect import Dialect
from spanfuse_processor.otlp.dialects.forms import Cut, Messages, load_text
from spanfuse_processor.otlp.dialects.sources import SYSTEM, read_sources, says
from spanfuse_processor.otlp.failure import error_message
from spanfuse_processor.otlp.span import STATUS_ERROR, Span
from spanfuse_processor.otlp.values import bounded, find, name
from spanfuse_schemas import Action, Drift, Fingerprint
from spanfuse_schemas.call import ContentMode
from spanfuse_schemas.names import normal_name
from spanfuse_schemas.wording import key_id

log = logging.getLogger(__name__)

MAX_SIZE: Final = 2**31
"""Longest text that a stated fingerprint can be of, characters: the sizes of a turn's items are added up."""

_SHAPE: Final = frozenset(
    {"role", "type", "kind", "id", "call_id", "tool_call_id", "tool_use_id", "toolUseId", "name", "index", "status"}
    | {"finish_reason", "event.name", "gen_ai.system", "gen_ai.message.index"}
)
"""Keys of messages and their parts under which nothing is said."""


@dataclass(slots=True)
class Content:
    """What a call's content comes to."""

    mode: ContentMode
    prints: Prints
    messages: Messages = None
    reply: Messages = None
    drift: Drift | None = None

    def fields(self) -> dict[str, Any]:
        """The fields of `Call` that fingerprints fill."""
        return {"content": self.mode, **fields_of(self.prints), "drift": self.drift or self.prints.drift}


def stated_prints(span: Span, counters: Counter[str]) -> Prints | None:
    """The fingerprints that the agent's process put on its span; `None` where there are none, or none that can be (counted)."""
    stated = span.attributes.get(FINGERPRINT_ATTRIBUTE)
    if stated is None:
        return None
    try:
        read: Prints = Prints.from_json(stated) if isinstance(stated, str) else Prints.model_validate(stated)
        found = _with_names(read)
    except ValueError:
        counters["fingerprint_invalid"] += 1
        return None
    if found.key != key_id():
        _other_key(counters)
    return found


def _other_key(counters: Counter[str]) -> None:
    """Words and fields of the agent's process are like those of no other."""
    counters["fingerprint_key"] += 1
    if counters["fingerprint_key"] == 1:
        log.warning(
            "agents state fingerprints under another key than this worker's: their sessions are compared in words only with "
            "themselves. Set SPANFUSE_FINGERPRINT_KEY there to service.fingerprint_key"
        )


def _with_names(prints: Prints) -> Prints:
    """With the names of tools in their one form, as content has them.

    Raises:
        ValueError: a size cannot be.
    """
    turns = (*(m.print for m in prints.messages), *(a.print for a in (*prints.prior, *prints.actions)))
    if any(found is not None and found.size > MAX_SIZE for found in (prints.input, prints.output, *turns)):
        raise ValueError("larger than any text")
    named = {"prior": tuple(map(_named, prints.prior)), "actions": tuple(map(_named, prints.actions))}
    return prints.model_copy(update=named)


def _named(action: Action) -> Action:
    return action.model_copy(update={"tool": normal_name(action.tool), "call_id": normal_name(action.call_id)})


def model_content(span: Span, dialect: Dialect, counters: Counter[str], *, turns: bool = True) -> Content:
    """Of a model call.

    Args:
        turns: whether to measure how far a new user turn is from earlier ones.
    """
    messages = read_sources(dialect.input, span, "user")
    reply = read_sources(dialect.output, span, "assistant")
    if span.status_code == STATUS_ERROR and isinstance(reply, list) and not any(map(says, reply)):
        reply = None  # some fill in an empty answer
    stated = stated_prints(span, counters)
    if stated is not None:
        return Content("fingerprint", stated, messages, reply)
    if (messages is None and reply is None) or _is_left_out(reply if messages is None else messages):
        return Content("structure", Prints())
    if isinstance(messages, Cut):
        counters["content_truncated"] += 1
    actions = () if reply is None else (Action(print=Fingerprint()),) if isinstance(reply, Cut) else read_actions(reply)
    prints = _with_input(messages, few(actions))
    return Content("content", prints, messages, reply, drift=_drift(span, messages, reply, counters, turns))


def _is_left_out(messages: Messages) -> bool:
    """Whether only the shape of messages was recorded, which is who spoke, and which tools were called: the same seems to be
    said again and again."""
    if not isinstance(messages, list):
        return False
    todo: list[Any] = list(messages)
    while todo:  # from the end, into the depth: the first text that is found ends it
        item = todo.pop()
        if isinstance(item, dict):
            todo += [value for key, value in item.items() if key not in _SHAPE]
        elif isinstance(item, (list, tuple)):
            todo += item
        elif item is not None and not isinstance(item, bool) and not is_hidden(item):
            return False
    return bool(messages)


def _drift(span: Span, messages: Messages, reply: Messages, counters: Counter[str], turns: bool) -> Drift | None:
    """What cannot be told is unknown, which is no drift: a call counts with or without it."""
    if messages is None or isinstance(messages, Cut) or isinstance(reply, Cut):
        return None
    try:
        return sketch(messages, reply, find(span.attributes, SYSTEM, span.events), turns=turns)
    except Exception:
        counters["drift_unknown"] += 1
        return None


def _with_input(messages: Messages, actions: tuple[Action, ...]) -> Prints:
    if messages is None:
        return Prints(actions=actions)
    if isinstance(messages, Cut):
        return Prints(input=Fingerprint(size=messages.size), actions=actions)
    return input_prints(messages, actions)


def tool_content(span: Span, dialect: Dialect, counters: Counter[str], failed: bool) -> Content:
    """Of a tool execution. A failure without a result is told by its message."""
    attributes = span.attributes
    tool = name(attributes, dialect.tool_name) or _tool_of(span.name, dialect.tool_span)
    call_id = bounded(find(attributes, dialect.tool_call_id, span.events))
    stated = stated_prints(span, counters)
    if stated is not None:
        actions = stated.actions or (Action(tool=tool, print=Fingerprint(), call_id=call_id),)
        return Content("fingerprint", stated.model_copy(update={"actions": actions}))
    arguments = load_text(find(attributes, dialect.tool_arguments, span.events))
    result = find(attributes, dialect.tool_result, span.events)
    if result in dialect.quirks.left_out:
        arguments = result = None
    if result is None and failed:
        result = error_message(span) or None
    if result is None and any(attributes.get(key) == "" for key in dialect.tool_result if isinstance(key, str)):
        result = ""  # it brought nothing, and says so
    mode: ContentMode = "structure" if arguments is None and result is None else "content"
    return Content(mode, tool_prints(tool, arguments, result, call_id))


def _tool_of(span_name: str, around: tuple[str, ...]) -> str:
    """The name of a tool, from that of its span."""
    for extra in around:
        span_name = span_name.removeprefix(extra).removesuffix(extra)
    return normal_name(span_name)

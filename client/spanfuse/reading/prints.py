"""The fingerprints of one call: made alike at ingest, of what its span carries, and in the agent's own process, which then
need not let the content out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from spanfuse.reading.drift import sketch
from spanfuse.reading.kept import kept_of
from spanfuse.reading.messages import MAX_ITEMS, Prints, is_spoken, read_actions, read_messages
from spanfuse.reading.texts import cut_json, echoes, is_truncated, looks_failed, print_of, tool_arguments
from spanfuse_schemas import Action, Fingerprint
from spanfuse_schemas.fingerprint import action_print, input_print
from spanfuse_schemas.names import normal_name


def call_prints(
    messages: Iterable[Any] | None, reply: Iterable[Any] | None, system: Any = None, *, drift: bool = True
) -> Prints:
    """Of a model call.

    Args:
        messages: its input messages, oldest first, the whole history; none: unknown.
        reply: its output messages; none: unknown, or it failed.
        system: instructions of the system that are kept apart from the messages.
        drift: whether to look for drift.
    """
    actions = () if reply is None else few(read_actions(reply))
    if messages is None:
        return Prints.made(actions=actions)
    items = messages if isinstance(messages, Sequence) and not isinstance(messages, str) else list(messages)
    prints = input_prints(items, actions)
    return prints.model_copy(update={"drift": sketch(items, reply, system)}) if drift else prints


def input_prints(messages: Sequence[Any], actions: tuple[Action, ...] = ()) -> Prints:
    """Of the messages of a model call, with the actions of its reply."""
    read = read_messages(messages)
    if len(read.messages) > MAX_ITEMS:  # as good as truncated
        size = sum(m.print.size for m in read.messages)
        return Prints.made(history=read.history, input=Fingerprint(size=size), actions=actions)
    return Prints.made(
        history=read.history, system=read.system, messages=read.messages, prior=few(read.prior), actions=actions
    )


def fields_of(prints: Prints) -> dict[str, Any]:
    """The fields of `Call` that fingerprints fill."""
    done = prints.prior if prints.output is None else prints.actions
    one = done[0] if len(done) == 1 else None
    return {
        "history": prints.history,
        "system": prints.system,
        "input": prints.input or input_print(prints.messages),
        "failed": bool(prints.messages) and all(m.error for m in prints.messages),
        "restates": any(m.restates for m in prints.messages),
        "echoes": prints.echoes or (bool(prints.messages) and all(m.echoes for m in prints.messages)),
        "answers": action_print(prints.prior),
        "answered": tuple([a.tool for a in prints.prior if a.tool]),
        "spoken": is_spoken(prints.messages),
        "wording": one.wording if one else "",
        "fields": one.fields if one else "",
        "meaning": one.meaning if one else "",
        "asks": prints.actions[0].wording if len(prints.actions) == 1 and prints.output is None else "",
        "action": action_print(prints.actions),
        "called": tuple([a.tool for a in prints.actions if a.tool]),
        "output": prints.output,
        "drift": prints.drift,
    }


def few(actions: tuple[Action, ...]) -> tuple[Action, ...]:
    """Actions, or what stands for too many."""
    if len(actions) <= MAX_ITEMS:
        return actions
    return (Action.made(tool=actions[0].tool, print=Fingerprint(size=sum(a.print.size for a in actions))),)


def tool_prints(tool: str, arguments: Any, result: Any, call_id: str = "") -> Prints:
    """Of a tool execution.

    Args:
        tool: its name.
        arguments: what it was called with, an object or its JSON text; none: unknown.
        result: what it brought, or the message of its failure; none: unknown.
        call_id: id of the tool call, as the provider gave it.
    """
    given, plain = unwrapped(arguments), unwrapped(result)
    kept = kept_of(tool, given)
    action = Action.made(
        tool=normal_name(tool),
        print=Fingerprint() if arguments is None else print_of("") if given == "" else kept.print,
        call_id=normal_name(call_id),
        wording=kept.wording,
        fields=kept.fields,
        meaning=kept.meaning,
    )
    return Prints.made(
        actions=(action,),
        output=None if plain is None else _print(plain),
        failed=looks_failed(plain),
        echoes=echoes(plain, arguments),
    )


def unwrapped(value: Any) -> Any:
    """A value in the form that messages have it in: parsed where it is JSON, even JSON text within JSON text."""
    if isinstance(value, str) and len(value) > 1 and value[0] == value[-1] == '"':
        try:
            inner = json.loads(value)
        except ValueError:
            return value
        value = inner if isinstance(inner, str) else value
    return tool_arguments(value)


def _print(value: Any) -> Fingerprint:
    """Without identity where the value is JSON that was cut, or says that it was."""
    if isinstance(value, str) and (is_truncated(value) or cut_json(value)):
        return Fingerprint(size=len(value))
    return print_of(value)

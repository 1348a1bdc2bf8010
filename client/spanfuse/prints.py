"""The fingerprints of one call: made alike at ingest, of what its span carries, and in the agent's own process, which then
need not let the content out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from spanfuse.drift import sketch
from spanfuse.kept import kept_of
from spanfuse.messages import MAX_ITEMS, Prints, read_actions, read_messages
from spanfuse.texts import cut_json, echoes, is_truncated, looks_failed, print_of, tool_arguments
from spanfuse_schemas import Action, Fingerprint
from spanfuse_schemas.names import normal_name


def call_prints(messages: Iterable[Any] | None, reply: Iterable[Any] | None, system: Any = None) -> Prints:
    """Of a model call.

    Args:
        messages: its input messages, oldest first, the whole history; none: unknown.
        reply: its output messages; none: unknown, or it failed.
        system: instructions of the system that are kept apart from the messages.
    """
    actions = () if reply is None else few(read_actions(reply))
    if messages is None:
        return Prints.made(actions=actions)
    items = messages if isinstance(messages, Sequence) and not isinstance(messages, str) else list(messages)
    return input_prints(items, actions).model_copy(update={"drift": sketch(items, reply, system)})


def input_prints(messages: Sequence[Any], actions: tuple[Action, ...] = ()) -> Prints:
    """Of the messages of a model call, with the actions of its reply."""
    read = read_messages(messages)
    if len(read.messages) > MAX_ITEMS:  # as good as truncated
        size = sum(m.print.size for m in read.messages)
        return Prints.made(history=read.history, input=Fingerprint(size=size), actions=actions)
    return Prints.made(
        history=read.history, system=read.system, messages=read.messages, prior=few(read.prior), actions=actions
    )


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

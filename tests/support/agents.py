"""Agents on paper: they make the calls that ingest would make of their spans, and stop where a Guard would stop them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from spanfuse.reading.messages import Prints, read_actions, read_messages
from spanfuse.reading.texts import looks_failed, print_of
from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.otlp.content import Content
from spanfuse_schemas import Action, Call, Decision, Detection, Policy, Rules
from spanfuse_schemas.fingerprint import fingerprint
from spanfuse_schemas.wording import fields_of, meaning, wording

START_NS = 1_750_000_000 * 10**9
SECOND = 10**9

_ids = itertools.count(1)


def policy(**rules: dict[str, Any]) -> Policy:
    """A policy in enforce mode; keyword `repeat_prompt={…}` for the rule `repeat.prompt`."""
    aliases = {name: field.alias or name for name, field in Rules.model_fields.items()}
    named = {aliases[name]: settings for name, settings in rules.items()}
    return Policy.model_validate({"mode": "enforce", "rules": named})


def llm(
    messages: list[dict[str, Any]],
    output: dict[str, Any] | None = None,
    *,
    at: float = 0,
    lasts: float = 0.05,
    session: str = "s",
    agent: str = "",
    cost: int = 0,
    **fields: Any,
) -> Call:
    """A model call with these messages, ending `lasts` seconds after `at` seconds."""
    read = read_messages(messages)
    prints = Prints(
        history=read.history,
        system=read.system,
        messages=read.messages,
        prior=read.prior,
        actions=read_actions([output]) if output else (),
    )
    start = START_NS + round(at * SECOND)
    return Call(
        **{
            "trace_id": "a" * 32,
            "span_id": f"{next(_ids):016x}",
            "start_ns": start,
            "end_ns": start + round(lasts * SECOND),
            "session": session,
            "agent": agent,
            "operation": "chat",
            "cost_nano_usd": cost,
            **Content("content", prints).fields(),
            **fields,
        }
    )


def prompt(text: str, **fields: Any) -> Call:
    """A model call with one user message and no history."""
    return llm([{"role": "user", "content": text}], {"role": "assistant", "content": f"about {text}"}, **fields)


def tool(
    name: str, arguments: Any, result: Any, *, at: float = 0, lasts: float = 0.02, error: str = "", **fields: Any
) -> Call:
    """A tool execution span."""
    start = START_NS + round(at * SECOND)
    action = Action(
        tool=name,
        print=print_of(arguments),
        wording=wording(arguments),
        fields=fields_of(arguments),
        meaning=meaning(name, arguments),
    )
    return Call(
        **{
            "kind": "tool",
            "trace_id": "a" * 32,
            "span_id": f"{next(_ids):016x}",
            "start_ns": start,
            "end_ns": start + round(lasts * SECOND),
            "session": "s",
            "operation": "execute_tool",
            **Content("content", Prints(actions=(action,), output=fingerprint(result))).fields(),
            "error_type": error or ("error" if looks_failed(result) else ""),
            "error_class": "tool" if error or looks_failed(result) else "",
            **fields,
        }
    )


def failure(error_type: str = "429", *, text: str = "hello", **fields: Any) -> Call:
    """A model call that the provider refused."""
    return llm([{"role": "user", "content": text}], **{"error_type": error_type, "error_class": "provider", **fields})


@dataclass
class Run:
    """What became of a run: `blocked_at` is the 0-based index of the first call that a Guard refused."""

    blocked_at: int | None = None
    rule: str = ""
    detections: list[Detection] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    session: SessionState = field(default_factory=lambda: SessionState("s"))

    @property
    def rules(self) -> list[str]:
        """Rules that fired, in order."""
        return [d.rule for d in self.detections]

    @property
    def quiet(self) -> bool:
        """Nothing fired."""
        return not self.detections


def play(calls: Iterable[Call], rules: Policy | None = None, *, session: SessionState | None = None) -> Run:
    """Feed model calls and tool spans to the core in order, until a Guard would refuse a model call."""
    pipeline = Pipeline(rules or policy())
    run = Run(session=session or SessionState("s"))
    index = 0
    for call in calls:
        if call.kind == "llm":
            held = run.session.decision
            if (
                held
                and held.action == "block"
                and not _over(held, call)
                and held.covers(call.input, call.answers, call.spoken)
            ):
                run.blocked_at, run.rule = index, held.rule
                return run
            index += 1
        outcome = pipeline.step(run.session, call)
        run.detections += outcome.detections
        run.decisions += outcome.decisions
    return run


def _over(held: Decision, call: Call) -> bool:
    return held.expires_at_ns is not None and held.expires_at_ns <= call.start_ns


def tool_loop(steps: Iterable[tuple[str, Any, Any]], *, every: float = 0.1, task: str = "Do it.") -> list[Call]:
    """A tool-calling agent with one constant user message and a history that grows: one model call per step, and a last one."""
    history: list[dict[str, Any]] = [{"role": "user", "content": task}]
    calls: list[Call] = []
    for i, (name, arguments, result) in enumerate(steps):
        call_id = f"call_{i}"
        asked = {
            "role": "assistant",
            "tool_calls": [{"id": call_id, "function": {"name": name, "arguments": json.dumps(arguments)}}],
        }
        calls.append(llm(history, asked, at=i * every))
        history = [*history, asked, {"role": "tool", "tool_call_id": call_id, "content": result}]
    calls.append(llm(history, {"role": "assistant", "content": "Done."}, at=len(calls) * every))
    return calls

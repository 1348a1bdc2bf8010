"""The promised examples as plans for a real agent process, and what must become of each."""

from __future__ import annotations

import json
import secrets
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple


class Example(NamedTuple):
    """A plan, and its outcome.

    Attributes:
        plan: see `tests.support.wire_agent`.
        allowed: model calls let through.
        rules: names of the rules of which one refused the next call; none: nothing was refused.
    """

    plan: dict[str, Any]
    allowed: int
    rules: tuple[str, ...] = ()


AGENT_RULES = [
    {"agent": "spender", "rules": {"budget.session": {"limit_usd": 0.05}}},
    {"agent": "capped", "rules": {"limits": {"max_steps": 20}}},
    {"agent": "flaky", "rules": {"breaker": {"cooldown_s": 1.5}}},
]
"""Overrides that the examples need."""


def _text(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def prompts(texts: list[str], **fields: Any) -> list[dict[str, Any]]:
    """Model calls without history."""
    return [{"prompt": text, **fields} for text in texts]


def tool_loop(steps: list[tuple[str, Any, str]], *, spans: bool) -> list[dict[str, Any]]:
    """A tool-calling agent whose user message never changes; with or without spans of its tools."""
    history = [_text("user", "Find out.")]
    calls: list[dict[str, Any]] = []
    for i, (name, arguments, result) in enumerate(steps):
        asked = {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": f"c{i}", "name": name, "arguments": arguments}],
        }
        calls.append({"messages": list(history), "output": asked})
        if spans:
            calls.append({"tool": name, "arguments": arguments, "result": result})
        answer = {"role": "tool", "parts": [{"type": "tool_call_response", "id": f"c{i}", "response": result}]}
        history += [asked, answer]
    return [*calls, {"messages": list(history), "output": _text("assistant", "Done.")}]


def _nested(value: Any) -> list[tuple[str, Any, str]]:
    return [
        ("search", {"q": {"table": "orders", "meta": json.dumps({"request_id": value(i)})}}, "no rows")
        for i in range(6)
    ]


def _cycle(period: int, *, ids: bool = False) -> list[str]:
    names = [
        "Summarise",
        "Translate",
        "Check",
        "Rewrite",
        "Rank",
        "Score",
        "Sort",
        "Merge",
        "Split",
        "Tag",
        "Link",
        "Cut",
    ]
    return [f"{names[i % period]} it{f' (ref {uuid.uuid4()})' if ids else ''}" for i in range(4 * period)]


def _timestamp(i: int) -> str:
    return (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=i)).isoformat()


def examples(run: str) -> dict[str, Example]:
    """All examples; `run` keeps the sessions of two runs apart."""
    edits = [
        s for i in range(6) for s in (("edit", {"v": f"version {i}"}, "ok"), ("test", {}, f"Error: {9 - i} failed"))
    ]
    polls = [("poll", {"job": 7}, f"{i * 10} % done") for i in range(8)]
    work = [("read", {"path": f"f{i}"}, f"text number {i}") for i in range(10)]
    plans: dict[str, tuple[str, list[dict[str, Any]], int, tuple[str, ...]]] = {
        "same-prompt": ("agent", prompts(["What is the weather in Tokyo?"] * 6), 3, ("repeat.prompt",)),
        "attempts": ("agent", prompts([f"Fix the build, attempt {i + 1}" for i in range(6)]), 3, ("near.prompt",)),
        "leaves-cycle": ("agent", prompts([f"{c} the text" for c in [*"ABABAB", "C"]]), 7, ()),
        "cycle-ids": ("agent", prompts(_cycle(2, ids=True)), 6, ("cycle",)),
        "edit-test": ("agent", tool_loop(edits, spans=True), 13, ()),
        "poll": ("agent", tool_loop(polls, spans=True), 9, ()),
        "work": ("agent", tool_loop(work, spans=True), 11, ()),
        "work-no-spans": ("agent", tool_loop(work, spans=False), 11, ()),
        "budget": (
            "spender",
            prompts([f"question {i} on thing{i}" for i in range(6)], cost_usd=0.02),
            3,
            ("budget.session",),
        ),
        "steps": ("capped", prompts([f"question {i} on thing{i}" for i in range(24)]), 20, ("limits.max_steps",)),
        "errors": ("agent", [{"prompt": f"q{i} of thing{i}", "error": "429"} for i in range(8)], 5, ("errors",)),
    }
    for period in (2, 3, 5, 12):
        plans[f"cycle-{period}"] = ("agent", prompts(_cycle(period)), 3 * period, ("cycle",))
    values = {"uuid": lambda i: str(uuid.uuid4()), "hex": lambda i: secrets.token_hex(16), "time": _timestamp}
    for name, value in values.items():
        for spans in (False, True):
            loop = tool_loop(_nested(value), spans=spans)
            plans[f"volatile-{name}-{spans}"] = ("agent", loop, 3, ("near.no_progress",))
    return {
        name: Example({"session": f"{name}-{run}", "agent": agent, "calls": calls}, allowed, rules)
        for name, (agent, calls, allowed, rules) in plans.items()
    }

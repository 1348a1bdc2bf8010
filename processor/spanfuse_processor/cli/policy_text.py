"""The policy, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from spanfuse_processor.cli.columns import pairs, prose
from spanfuse_processor.cli.options import printable
from spanfuse_processor.cli.words import ago, moment

Row = dict[str, Any]


def told(notice: Row, overlay: Row | None, width: int) -> Iterator[Text]:
    """Its mode, its rules on tools, and what is laid over the file."""
    found, mode = notice["policy"], notice["policy"].get("mode", "observe")
    yield Text(f"policy {notice['epoch']}", "bold").append(f"  mode {printable(mode)}")
    yield from pairs(list(_summary(notice, overlay)), width)
    yield Text()
    yield Text("Tools, the first that fits", "bold")
    for rule in found.get("tools", ()):
        yield from prose(describe(rule), width, 2)
    yield Text(printable(f"  {found.get('tools_default', 'allow')} every other tool"))


def _summary(notice: Row, overlay: Row | None) -> Iterator[tuple[str, str]]:
    found = notice["policy"]
    yield "since", f"{moment(notice['issued_at_ns'])}, {ago(notice['issued_at_ns'])} ago"
    yield "rules set", ", ".join(found.get("rules", {}))
    yield "budgets", ", ".join(str(one.get("name") or one.get("scope", "")) for one in found.get("budgets", ()))
    yield "exceptions", str(len(found.get("overrides", ())) or "")
    if overlay is not None:
        by = f" by {overlay['actor']}" if overlay.get("actor") else ""
        why = f": {overlay['reason']}" if overlay.get("reason") else ""
        over = "" if overlay.get("in_force", True) else "; no more in force, as the file has changed"
        yield "laid over", f"{', '.join(overlay['overlay'])}, {ago(overlay['at_ns'])} ago{by}{why}{over}"


def describe(rule: Row) -> str:
    """A rule on tools in one line."""
    words = [f"{rule['action']} {rule['tool']}"]
    words += [f"of {kind} {rule[kind]}" for kind in ("agent", "team") if kind in rule]
    for path, matcher in rule.get("arguments", {}).items():
        words += [f"where {path} {operator.replace('_', ' ')} {value!r}" for operator, value in matcher.items()]
    if "max_calls" in rule:
        words.append(f"{rule['max_calls']} times a session")
    return " ".join(words) + (f": {rule['reason']}" if rule.get("reason") else "")

"""Events in one line each, for people."""

from __future__ import annotations

from typing import Any, Final

from spanfuse_processor.cli.api import Event
from spanfuse_processor.cli.options import printable
from spanfuse_processor.cli.words import clock, describe, describe_detection, now_ns

MAX_IDS: Final = 5
"""Ids of sessions told in one line."""


def line(event: Event, said: dict[str, Any]) -> str:
    """An event in one line, with the time of day, UTC."""
    at_ns = said.get("at_ns") or said.get("issued_at_ns") or said.get("order", {}).get("at_ns") or now_ns()
    return printable(f"{clock(at_ns)} {event.event:<9} {_said(event.event, said)}")


def _said(event: str, said: dict[str, Any]) -> str:
    if event == "decision":
        return describe(said)
    if event == "detection":
        return describe_detection(said)
    if event == "policy":
        return f"{said['epoch']}, mode {said['policy'].get('mode', 'observe')}"
    if event == "audit":
        return _order(said)
    if event == "sessions":
        more = len(said["changed"]) - MAX_IDS
        rest = f" and {more} more" if more > 0 else " and more" if said.get("more") else ""
        return ", ".join(said["changed"][:MAX_IDS]) + rest
    return "what came before is not known any more: load anew what you keep"


def _order(said: dict[str, Any]) -> str:
    order = said["order"]
    who = f" by {order['actor']}" if order.get("actor") else ""
    done = "" if said.get("done") else f": refused, {said.get('why', '')}"
    why = f" ({order['reason']})" if order.get("reason") else ""
    return f"{order['action']} {order['budget']} of {order['scope']}{who}{why}{done}"

"""Numbers, moments and decisions in words for people. What comes from others still has to pass `printable`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from spanfuse_processor.cli.options import printable

NANO: Final = 10**9
_LENGTHS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"))
_BARS: Final = "▁▂▃▄▅▆▇█"

EFFECTS: Final = {
    "blocked": "red",
    "would block": "yellow",
    "probe next": "cyan",
    "nudged": "yellow",
    "ok": "green",
}
"""What happens to the next call of a key → the colour of the word."""


def now_ns() -> int:
    """The time, nanoseconds since the Unix epoch."""
    return time.time_ns()


def lasting(seconds: float) -> str:
    """A length of time, in its largest unit: 42s, 5m, 3h, 12d."""
    for size, unit in _LENGTHS:
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def ago(at_ns: int) -> str:
    """How long ago a moment is; empty for none."""
    return lasting((now_ns() - at_ns) / NANO) if at_ns else ""


def until(at_ns: int | None) -> str:
    """How long until a moment, rounded up to the second; empty for none, `now` for one that is past."""
    if not at_ns:
        return ""
    left = (at_ns - now_ns()) / NANO
    return f"in {lasting(left + 0.999)}" if left > 0 else "now"


def moment(at_ns: int | None) -> str:
    """A moment, UTC."""
    return "never" if at_ns is None else f"{datetime.fromtimestamp(at_ns / NANO, UTC):%Y-%m-%d %H:%M}Z"


def ends(at_ns: int | None) -> str:
    """Until when a decision holds."""
    return f"{moment(at_ns)}, {until(at_ns)}" if at_ns else "it is reset"


def clock(at_ns: int) -> str:
    """The time of day of a moment, UTC."""
    return f"{datetime.fromtimestamp(at_ns / NANO, UTC):%H:%M:%S}"


def short(number: float) -> str:
    """A number with three digits at most: 950, 12.3k, 4.5M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 0.9995 * size:
            part = number / size
            return f"{part:.0f}{unit}" if part >= 99.95 else f"{part:.1f}{unit}".replace(".0", "")
    return f"{number:g}"


def share(part: float, whole: float) -> str:
    """A part of a whole, per cent."""
    return f"{part / whole:.1%}".replace(".0%", "%") if whole else "0%"


def count(number: int, one: str, many: str = "") -> str:
    """A number of things: `1 call`, `2,070 calls`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def spark(values: Sequence[float]) -> str:
    """A line of bars, the highest the largest value."""
    top = max(values, default=0)
    return "".join(_BARS[min(7, int(8 * value / top))] if value > 0 else _BARS[0] for value in values) if top else ""


def folded(values: Sequence[float], places: int) -> list[float]:
    """Values summed up to so many."""
    size = -(-len(values) // places) or 1
    return [sum(values[n : n + size]) for n in range(0, len(values), size)]


def effect(stands: dict[str, Any] | None) -> str:
    """What happens to the next call, by a decision or by the row of a session; see `EFFECTS`."""
    if stands is None:
        return "ok"
    expires_ns = stands.get("expires_at_ns")
    over = stands.get("state") == "open" and expires_ns is not None and expires_ns <= now_ns()
    if over and stands.get("lapses"):
        return "ok"
    if over or stands.get("state") == "half_open":
        return "probe next"
    action = stands.get("action", "allow")
    if action == "block":
        return "blocked" if stands.get("mode") == "enforce" else "would block"
    return "nudged" if action == "nudge" else "ok"


def describe(decision: dict[str, Any]) -> str:
    """A decision in one line."""
    words = [
        decision["key"],
        decision.get("action", "allow"),
        f"({decision['state']}, {decision.get('mode', 'observe')})",
    ]
    if rule := decision.get("rule"):
        words.append(f"{rule}:")
    return printable(" ".join([*words, decision.get("message", "")]).rstrip(" :"))


def describe_detection(detection: dict[str, Any]) -> str:
    """A detection in one line."""
    rule, action, session = detection["rule"], detection["action"], detection["session"]
    return printable(f"session:{session} detection ({detection['mode']}) {rule} {action}: {detection['message']}")

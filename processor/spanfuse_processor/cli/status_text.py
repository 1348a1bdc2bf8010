"""How a host is, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.text import Text

from spanfuse_processor.cli.breakers_text import listed, release, stands
from spanfuse_processor.cli.columns import pairs
from spanfuse_processor.cli.options import printable
from spanfuse_processor.cli.words import ago, count, effect, lasting

Row = dict[str, Any]

MAX_BREAKERS: Final = 10
"""Breakers shown, the newest."""
TOLD: Final = (
    "version", "host", "mode", "policy_epoch", "uptime_s", "sessions", "live_sessions", "open_breakers", "half_open_breakers",
    "guards", "ports",
)  # fmt: skip
"""What is told in words; all else is listed by its name."""


def told(found: Row, decisions: Sequence[Row], width: int) -> Iterator[Text]:
    """The whole: what runs, what it counted, what stands."""
    yield _head(found)
    yield from pairs(list(_summary(found)), width)
    rest = _flat({name: value for name, value in found.items() if name not in TOLD})
    if rest:
        yield Text()
        yield from pairs(rest, width)
    yield Text()
    if not decisions:
        yield Text("No breaker is open.", "green")
        return
    yield Text("Breakers", "bold")
    newest = sorted(decisions, key=lambda decision: int(decision["issued_at_ns"]), reverse=True)
    yield from listed(newest[:MAX_BREAKERS], width)
    if len(decisions) > MAX_BREAKERS:
        yield Text(f"… and {len(decisions) - MAX_BREAKERS} older; see: spanfuse breakers", "dim")


def of_key(found: Row, width: int) -> Iterator[Text]:
    """One breaker."""
    decision = found["decision"]
    if decision is None:
        yield Text(printable(f"{found['key']}: closed"))
        return
    yield from stands(decision, width)
    if effect(decision) == "probe next":
        yield Text("  The cooldown is over: the next call passes as a probe, and decides.")
        yield release(found["key"])
    elif effect(decision) == "would block":
        yield Text("  Nothing is blocked: this deployment observes.")


def _head(found: Row) -> Text:
    host = {"embedded": "spanfuse up", "stream": "workers over Kafka"}.get(found.get("host", ""), "")
    mode = found.get("mode", "")
    line = Text(printable(f"spanfuse {found.get('version', '')}".strip()), "bold")
    line.append(f"  {host}" if host else "")
    line.append(printable(f"  {mode}s"), "yellow" if mode == "observe" else "green") if mode else None
    return line.append(f"  up {lasting(found['uptime_s'])}" if "uptime_s" in found else "")


def _summary(found: Row) -> Iterator[tuple[str, str]]:
    if found.get("sessions") is not None:
        live = f" · {found['live_sessions']:,} in memory" if "live_sessions" in found else ""
        yield "sessions", f"{found['sessions']:,}{live}"
    if "open_breakers" in found:
        yield "breakers", f"{found['open_breakers']:,} open · {found.get('half_open_breakers', 0):,} half-open"
    yield "guards", _guards(found.get("guards") or {})
    yield "policy", str(found["policy_epoch"]) if "policy_epoch" in found else ""
    yield "ports", " · ".join(f"{name} {port}" for name, port in (found.get("ports") or {}).items() if port)


def _guards(guards: Row) -> str:
    reporting = guards.get("reporting")
    states = reporting if isinstance(reporting, dict) else {}
    number = sum(states.values()) if states else reporting if isinstance(reporting, int) else 0
    if not guards.get("seen") and not number:
        return ""
    apart = f" ({', '.join(f'{n} {state}' for state, n in states.items())})" if len(states) > 1 else ""
    share = guards.get("share")
    covered = f" · {share:.0%} of {count(guards['seen'], 'call')} guarded" if share is not None else ""
    return f"{number} reporting{apart}{covered}"


def _flat(value: dict[Any, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Names and values in lines; what was counted not once is left to JSON."""
    rows: list[tuple[str, str]] = []
    for name, inner in value.items():
        if isinstance(inner, list) and all(isinstance(one, dict) for one in inner):
            rows += _flat(dict(enumerate(inner)), f"{prefix}{name}.")
        elif isinstance(inner, dict):
            rows += _flat(inner, f"{prefix}{name}.")
        elif inner or not prefix.startswith("counts."):
            rows.append((printable(f"{prefix}{name}"), _value(str(name), inner)))
    return rows


def _value(name: str, value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if value is None or isinstance(value, bool):
        return {None: "not known", True: "yes", False: "no"}[value]
    if isinstance(value, int) and name.endswith("_ns"):
        return f"{ago(value)} ago"
    return f"{value:,}" if isinstance(value, int) and not name.endswith("epoch") else str(value)

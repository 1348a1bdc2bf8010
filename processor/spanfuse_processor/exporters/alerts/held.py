"""An alert with what the book has to know to tell of it, stored as one row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

import orjson

from spanfuse_processor.exporters.alerts.model import Alert
from spanfuse_processor.exporters.alerts.signal import Signal
from spanfuse_schemas.fingerprint import exact_hash

_IDENTITY: Final = ("agent", "user", "team", "session", "message", "title", "release", "mode")
"""Of two signals of one alert, the later says these, as far as it says them."""


class Timing(NamedTuple):
    """How alerts go by the clock, nanoseconds."""

    window_ns: int = 3600 * 10**9
    """An alert is told once within it."""
    quiet_ns: int = 900 * 10**9
    """One that nothing holds is over when it was not seen for so long."""
    gather_ns: int = 500_000_000
    """How long a message waits for what else belongs into it: a decision and its detection come apart."""


@dataclass(slots=True)
class Held:
    """An alert in the book. Times are of the book's clock, nanoseconds."""

    alert: Alert
    level: float = 0
    """How bad it has been within this window."""
    told: float = -1
    """The level that was told within this window; below 0: none."""
    open: bool = False
    """Receivers know that it fires, and not yet that it is over."""
    window_end_ns: int = 0
    """End of the window in which it is told once."""
    fixed: bool = False
    """The window is a period of its own, and the alert ends with it."""
    holds: bool = False
    """Something stands against the key: only news ends it."""
    lapses_ns: int = 0
    """When what stands is over without news; 0: never."""
    seen_ns: int = 0
    """When it was last seen."""
    due_ns: int = 0
    """When it is to be told; 0: it need not be."""

    def to_row(self) -> bytes:
        """As it is stored."""
        return orjson.dumps(_plain(self) | {"alert": self.alert.model_dump(mode="json", exclude_defaults=True)})

    @classmethod
    def from_row(cls, row: bytes) -> Held:
        """The inverse of `to_row`.

        Raises:
            ValueError: it is of another version.
        """
        found: Mapping[str, Any] = orjson.loads(row)
        alert = Alert.model_validate(found["alert"])
        known = {f.name for f in fields(cls)} - {"alert"}
        return cls(alert, **{name: value for name, value in found.items() if name in known})

    @property
    def firing(self) -> bool:
        """It is not over."""
        return self.alert.state == "firing"

    def ends_ns(self, timing: Timing) -> int:
        """When it is over if nothing is heard of it; 0: never."""
        if self.holds:
            return self.lapses_ns
        return self.window_end_ns if self.fixed else self.seen_ns + timing.quiet_ns

    def change(self, **update: Any) -> Alert:
        """Change fields of the alert."""
        self.alert = self.alert.model_copy(update=update)
        return self.alert

    def merge(self, signal: Signal, now_ns: int) -> None:
        """Take in that it was seen again."""
        said = {name: value for name in _IDENTITY if (value := getattr(signal, name))}
        worse = signal.level >= self.level
        if not worse and self.firing:
            said = {name: value for name, value in said.items() if not getattr(self.alert, name)}
        if worse:
            said |= {"severity": signal.severity, "action": signal.action or self.alert.action}
            said |= {"evidence": signal.evidence} if signal.evidence.model_fields_set else {}
        self.change(
            **said,
            last_ns=max(self.alert.last_ns, signal.at_ns),
            cost_nano_usd=max(self.alert.cost_nano_usd, signal.cost_nano_usd),
            limit=signal.limit or self.alert.limit,
            expires_at_ns=signal.expires_at_ns if signal.holds else self.alert.expires_at_ns,
        )
        self.level = max(self.level, signal.level)
        if signal.holds:
            self.holds = True
            self.lapses_ns = signal.expires_at_ns or 0 if signal.lapses else 0
        self.seen_ns = now_ns

    def turn(self, signal: Signal, now_ns: int, timing: Timing) -> None:
        """Begin a window."""
        self.fixed = signal.window_end_ns is not None
        self.window_end_ns = signal.window_end_ns or now_ns + timing.window_ns
        self.level = self.told = -1


def begun(signal: Signal, now_ns: int, timing: Timing) -> Held:
    """A new alert."""
    made = Alert(
        id=exact_hash(f"{signal.rule}\n{signal.key}\n{now_ns}"), rule=signal.rule, key=signal.key,
        severity=signal.severity, first_ns=signal.at_ns, last_ns=signal.at_ns,
    )  # fmt: skip
    held = Held(made)
    held.turn(signal, now_ns, timing)
    held.merge(signal, now_ns)
    return held


def _plain(held: Held) -> dict[str, Any]:
    """The plain fields."""
    return {f.name: getattr(held, f.name) for f in fields(held) if f.name != "alert"}

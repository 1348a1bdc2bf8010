"""`source.silent`: an agent that used to send spans sends none, or nobody does.

What is usual is learned: an agent that pauses every night is not missed after its first night. Its longest silence is forgotten
slowly, with every further minute at work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from spanfuse_processor.config.alerts import Silence as Settings
from spanfuse_processor.exporters.alerts.signal import Over, Signal
from spanfuse_processor.exporters.alerts.text import moment

RULE: Final = "source.silent"
ALL: Final = "global:*"
MAX_SOURCES: Final = 2_000
"""Sources remembered; the one silent longest is forgotten first."""
_FADES: Final = 0.999
"""What is left of the longest silence after a further minute at work: half after some twelve hours of them."""


class Silence:
    """Who sends, and how long each was ever silent."""

    def __init__(self) -> None:
        self._seen: dict[str, list[Any]] = {}
        """Key → when it was last at work, in how many looks it was, its longest silence, and whether that was told."""

    def look(self, last: Mapping[str, int], now_ns: int, settings: Settings) -> Iterator[Signal | Over]:
        """Compare.

        Args:
            last: key, such as `agent:research`, → when it was last at work, nanoseconds since the Unix epoch.
        """
        everybody = {ALL: max(last.values(), default=0)} | dict(last)
        for key, at_ns in everybody.items():
            if at_ns and self._note(key, at_ns):
                yield Over(key, at_ns, RULE)
        self._make_room()
        all_are = self._is_silent(ALL, now_ns, settings)
        for key in [ALL] if all_are else list(self._seen):
            if self._is_silent(key, now_ns, settings) and not self._seen[key][3]:
                self._seen[key][3] = True
                yield self._told(key, now_ns)

    def _note(self, key: str, at_ns: int) -> bool:
        """Take in when it was last at work; whether it had been told to be silent."""
        seen = self._seen.setdefault(key, [at_ns, 1, 0, False])
        if at_ns <= seen[0]:
            return False
        seen[2] = max(at_ns - seen[0], int(seen[2] * _FADES))
        seen[0], seen[1] = at_ns, seen[1] + 1
        told, seen[3] = seen[3], False
        return bool(told)

    def _is_silent(self, key: str, now_ns: int, settings: Settings) -> bool:
        last_ns, active, longest_ns, _ = self._seen.get(key, (now_ns, 0, 0, False))
        patience = max(settings.after_s * 1e9, settings.factor * longest_ns)
        return active >= settings.min_active and now_ns - last_ns > patience

    def _told(self, key: str, now_ns: int) -> Signal:
        last_ns, _, longest_ns, _ = self._seen[key]
        who = "any agent" if key == ALL else f"agent `{key.partition(':')[2]}`"
        return Signal(
            rule=RULE, key=key, severity="critical" if key == ALL else "warning", holds=True, at_ns=now_ns,
            title="No agent sends spans any more" if key == ALL else f"Agent {key.partition(':')[2]} sends no spans any more",
            message=f"No span of {who} has come since {moment(last_ns)}, for {_minutes(now_ns - last_ns)}; its longest silence "
            f"before was {_minutes(longest_ns)}. What does not come is neither judged nor charged: look at the agents, their "
            "exporters and the Collector.",
            agent="" if key == ALL else key.partition(":")[2],
        )  # fmt: skip

    def _make_room(self) -> None:
        while len(self._seen) > MAX_SOURCES:
            del self._seen[min(self._seen, key=lambda key: self._seen[key][0])]

    def snapshot(self) -> Any:
        """As JSON."""
        return self._seen

    def restore(self, found: Any) -> None:
        """The inverse."""
        self._seen = {key: list(seen) for key, seen in found.items()}


def _minutes(ns: int) -> str:
    minutes = ns / 60e9
    return f"{minutes:.0f} min" if minutes < 180 else f"{minutes / 60:.1f} h"

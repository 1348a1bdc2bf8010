"""Sessions and traces that have to do with one another: a trace whose calls turned out to belong to a session."""

from __future__ import annotations

from spanfuse_processor.hosts.replay.packed import lane_of


class Families:
    """Names, linked in pairs."""

    def __init__(self) -> None:
        self._of: dict[str, str] = {}

    def link(self, one: str, other: str) -> None:
        """Two belong together."""
        first, second = sorted((self._first(one), self._first(other)))
        if first != second:
            self._of.setdefault(first, first)
            self._of[second] = first

    def _first(self, name: str) -> str:
        while (of := self._of.get(name, name)) != name:
            self._of[name] = self._of.get(of, of)
            name = of
        return name

    def homes(self) -> dict[str, int]:
        """The lanes of those that are not in the lane of their name; none where all are."""
        found = {name: lane_of(self._first(name)) for name in list(self._of)}
        return {name: lane for name, lane in found.items() if lane != lane_of(name)}

"""Sessions that are taken for good by what their calls say, where nobody has read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from spanfuse_processor.errors import ConfigError
from spanfuse_processor.hosts.tuning.labels import Label, Labels
from spanfuse_schemas import Call


@dataclass(slots=True)
class Profile:
    """What the calls of a session say of it as a whole."""

    agent: str = ""
    """Its first agent that has a name."""
    team: str = ""
    """Its first team."""
    model: str = ""
    """Model of its last model call."""
    finish: str = ""
    """Finish reason of its last model call."""
    error: str = ""
    """Error type of its last model call; empty: a success."""


Profiles = dict[str, Profile]
"""By session, in the order of their first calls."""

MARKS: Final = ("agent", "team", "model", "finish", "session")
"""What a marker may look at: `*` and `?` as in a shell. `finish` also asks for a last call that did not fail."""


def profiled(calls: Iterable[Call]) -> Profiles:
    """What each session's calls say of it."""
    found: Profiles = {}
    for call in calls:
        profile = found.setdefault(call.session, Profile())
        profile.agent = profile.agent or call.agent
        profile.team = profile.team or call.team
        if call.kind == "llm":
            profile.model, profile.finish, profile.error = call.model, call.finish_reason, call.error_type
    return found


@dataclass(frozen=True)
class Marker:
    """One condition of a good session.

    Args:
        look: one of `MARKS`, or `sessions`.
        patterns: any of which has to match; of `sessions` the ids themselves.
    """

    look: str
    patterns: frozenset[str]

    @classmethod
    def read(cls, text: str) -> Marker:
        """From `finish=stop,end_turn`, `agent=checkout-*` or `sessions=FILE`, a file with an id a line.

        Raises:
            ConfigError: it is none.
        """
        look, _, said = text.partition("=")
        if look == "sessions" and said:
            lines = Path(said).read_text(encoding="utf-8", errors="replace").splitlines()
            return cls(look, frozenset(filter(None, map(str.strip, lines))))
        if look not in MARKS or not said:
            raise ConfigError([f"{text!r} marks no session: one of {', '.join(MARKS)} or sessions, `=`, and a value"])
        return cls(look, frozenset(said.split(",")))

    def holds(self, session: str, profile: Profile) -> bool:
        """Whether it holds of a session."""
        if self.look == "sessions":
            return session in self.patterns
        if self.look == "finish" and profile.error:
            return False
        value = session if self.look == "session" else str(getattr(profile, self.look))
        return any(fnmatchcase(value, pattern) for pattern in self.patterns)


def marked(profiles: Profiles, markers: Sequence[Marker]) -> Labels:
    """The sessions of which all markers hold, as good ones; without a marker none."""
    hold: Callable[[str, Profile], bool] = lambda session, profile: all(m.holds(session, profile) for m in markers)  # noqa: E731
    good: Iterator[str] = (session for session, profile in profiles.items() if markers and hold(session, profile))
    return {session: Label(session=session, label="good") for session in good}

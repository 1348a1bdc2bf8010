"""Whose a span is: read under the keys that the operator names, else under those that libraries use, else of its resource."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from spanfuse_processor.otlp.dialects import identity
from spanfuse_processor.otlp.dialects.dialect import Dialect
from spanfuse_processor.otlp.values import Keys, name

_SESSION_OF_PROCESS: Final[Keys] = ("session.id",)
"""Of a process that serves one person, such as a coding agent on a desk."""
_USER_OF_PROCESS: Final[Keys] = ("user.id", "enduser.id")
_TEAM_OF_PROCESS: Final[Keys] = ("team.id", "team", "department", "service.namespace")
_UNNAMED: Final = "unknown_service"
"""What SDKs write for a service that nobody named."""
_RESPONSE: Final = "resp_"
"""How the ids of OpenAI's responses begin. Some libraries give the last one, to which the next request refers, as that of the
conversation: each call would be a session of its own."""


class Named(NamedTuple):
    """What a span, or the process that it comes from, says; empty for what it does not."""

    session: str = ""
    user: str = ""
    team: str = ""
    agent: str = ""
    made_up: str = ""
    """A session that nobody but perhaps a library has named."""


class Whose:
    """Reads whose a span is.

    Args:
        session: attributes of one's own that name it, on spans or on their resource. They are looked for first.
        user: likewise.
        team: likewise.
        agent: likewise.
        within: attributes of the resource within which a session id is unique; their values go before it.
    """

    def __init__(
        self,
        session: Iterable[str] = (),
        user: Iterable[str] = (),
        team: Iterable[str] = (),
        agent: Iterable[str] = (),
        within: Iterable[str] = (),
    ) -> None:
        self._session, self._user, self._team = tuple(session), tuple(user), tuple(team)
        self._agent, self._within = tuple(agent), tuple(within)
        self._sessions: Keys = self._session + identity.SESSION
        self._chosen: Keys = tuple(key for key in self._sessions if key not in identity.MADE_UP)
        self._users: Keys = self._user + identity.USER
        self._teams: Keys = self._team + identity.TEAM
        self._last: tuple[dict[str, Any] | None, Named] = None, Named()
        self._attributes = identity.ATTRIBUTES.union(self._session, self._user, self._team)

    def of_span(self, attributes: dict[str, Any], dialect: Dialect, resource: dict[str, Any]) -> Named:
        """What a span says of itself."""
        agent = (self._agent and name(attributes, self._agent)) or identity.named(name(attributes, dialect.agent))
        if attributes.keys().isdisjoint(self._attributes):  # most spans say nothing of the rest
            return Named(agent=agent)
        session, made_up = self._session_of(attributes), ""
        if dialect.quirks.made_up_session and session == name(attributes, identity.MADE_UP):
            session, made_up = "", session
        if self._within:
            session, made_up = self._full(session, resource), self._full(made_up, resource)
        return Named(session, name(attributes, self._users), name(attributes, self._teams), agent, made_up)

    def _session_of(self, attributes: dict[str, Any]) -> str:
        found = name(attributes, self._sessions)
        return name(attributes, self._chosen) if found.startswith(_RESPONSE) else found

    def of_process(self, resource: dict[str, Any]) -> Named:
        """What a resource says of all its spans, which share it."""
        known, found = self._last
        if known is not resource:
            found = self._of_process(resource)
            self._last = resource, found  # one atomic step: other threads may be reading
        return found

    def _of_process(self, resource: dict[str, Any]) -> Named:
        service = name(resource, ("service.name",))
        return Named(
            self._full(name(resource, self._session + _SESSION_OF_PROCESS), resource),
            name(resource, self._user + _USER_OF_PROCESS),
            name(resource, self._team + _TEAM_OF_PROCESS),
            name(resource, self._agent) or ("" if service.startswith(_UNNAMED) else service),
        )

    def _full(self, session: str, resource: dict[str, Any]) -> str:
        if not session:
            return ""
        return "/".join([*filter(None, (name(resource, (key,)) for key in self._within)), session])


KNOWN: Final = Whose()
"""By the keys that libraries use alone."""

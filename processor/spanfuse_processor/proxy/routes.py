"""Whose API a path is, and what is asked there."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import unquote

from spanfuse.reading.asked import Kind

Provider = Literal["openai", "anthropic"]

_PROVIDERS: Final[dict[str, Provider]] = {"openai": "openai", "anthropic": "anthropic"}
_NAMES: Final = ("session", "agent", "user", "team")

_KINDS: Final[dict[str, Kind]] = {
    "chat/completions": "chat",
    "responses": "responses",
    "messages": "messages",
    "completions": "completions",
    "embeddings": "embeddings",
}
"""What calls a model, by the path under `/v1`."""
_OF_ANTHROPIC: Final = ("anthropic-version", "x-api-key")
"""Headers that only Anthropic's clients send."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where a request goes."""

    provider: Provider
    target: str
    """Path under `/v1` and query, as they came."""
    kind: Kind | None
    """What model call it is; None: none that a Guard looks at."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Whose it is, as far as the path says: session, agent, user, team."""


def route(method: str, raw_path: str, query: str, headers: Mapping[str, str]) -> Route | None:
    """The route of a request; None where there is none.

    A path is `/v1/…`, before which the provider may stand, and names: `/session/run-1/agent/planner/openai/v1/…`.

    Args:
        method: HTTP method.
        raw_path: as it came, percent-encoded.
        query: as it came, without its question mark.
        headers: of the request, in small letters.
    """
    names, rest = _named(raw_path.lstrip("/"))
    first, _, after = rest.partition("/")
    provider = _PROVIDERS.get(first)
    if provider is not None:
        rest = after
    version, _, under = rest.partition("/")
    if version != "v1":
        return None
    plain = _plain(under)
    return Route(
        provider or _guessed(plain, headers),
        f"{under}?{query}" if query else under,
        _KINDS.get(plain) if method == "POST" else None,
        names,
    )


def _named(path: str) -> tuple[dict[str, str], str]:
    """The names at the beginning of a path, and the rest of it."""
    names: dict[str, str] = {}
    while (kind := path.partition("/")[0]) in _NAMES:
        value, _, path = path[len(kind) + 1 :].partition("/")
        names[kind] = unquote(value)
    return names, path


def _plain(under: str) -> str:
    """A path as providers read it: `chat//completions/` and `%63hat/completions` are no way around the Guard."""
    return posixpath.normpath("/" + unquote(under)).strip("/")


def _guessed(plain: str, headers: Mapping[str, str]) -> Provider:
    """The provider where the path does not name it."""
    if plain in _KINDS:
        return "anthropic" if _KINDS[plain] == "messages" else "openai"
    known = plain.startswith("messages/") or any(name in headers for name in _OF_ANTHROPIC)
    return "anthropic" if known else "openai"

"""Whose a call of LiteLLM is, as its metadata says, in the library and in the proxy: under the names that ingest finds in its
spans, too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from spanfuse.headers import SESSION_IN_METADATA
from spanfuse.integrations._names import otherwise

_PLACES: Final = ("metadata", "litellm_metadata")
_AGENT: Final = ("agent_name", "lc_agent_name")
_USER: Final = (
    "user_api_key_end_user_id", "user_api_key_user_id", "user_api_key_user_email", "user_id", "trace_user_id",
)  # fmt: skip
_TEAM: Final = ("user_api_key_team_alias", "user_api_key_team_id", "team", "team_id")


def names_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """Names that `Guard.call` takes: session and agent where nobody named them.

    Args:
        body: arguments of the call.
    """
    told: dict[str, Any] = told_of(body)
    return {**otherwise(told.pop("session", None), told.pop("agent", None)), **told}


def told_of(body: Mapping[str, Any]) -> dict[str, str]:
    """Session, agent, user and team, as far as the metadata of a call says them; that which a client sent comes after what the
    proxy knows of its key."""
    places = [place for name in _PLACES if isinstance(place := body.get(name), Mapping)]
    places += [sent for place in places if isinstance(sent := place.get("requester_metadata"), Mapping)]
    found = {
        "session": _first(places, SESSION_IN_METADATA) or _text(body.get("litellm_session_id")),
        "agent": _first(places, _AGENT),
        "user": _first(places, _USER) or _text(body.get("user")),
        "team": _first(places, _TEAM),
    }
    return {kind: name for kind, name in found.items() if name}


def provider_of(body: Mapping[str, Any]) -> str:
    """The provider, where the arguments name it: apart, or as in `openai/gpt-4o`; empty: they do not."""
    provider, slash, _ = _text(body.get("model")).partition("/")
    return _text(body.get("custom_llm_provider")) or (provider if slash else "")


def _first(places: Iterable[Mapping[str, Any]], keys: Iterable[str]) -> str:
    return next((found for key in keys for place in places if (found := _text(place.get(key)))), "")


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""

"""Recordings replayed in this process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from spanfuse_processor.config import Config
from spanfuse_processor.hosts.replay import Files, Report, Source, calls_of, replay_calls
from spanfuse_processor.hosts.replay.states import MAX_LIVE_SESSIONS
from spanfuse_schemas import Policy


def replay_files(
    policy: Policy, paths: Iterable[Path], *, config: Config | None = None, live_sessions: int = MAX_LIVE_SESSIONS
) -> Report:
    """Replay files and directories.

    Args:
        config: how spans are read; default: the defaults.
    """
    return replay_policies([policy], Files(tuple(paths)), config=config, live_sessions=live_sessions)[0]


def replay_policies(
    policies: Sequence[Policy],
    source: Source,
    *,
    config: Config | None = None,
    live_sessions: int = MAX_LIVE_SESSIONS,
) -> list[Report]:
    """The same of several policies, from any source."""
    with calls_of(source, config) as spool:
        return replay_calls(spool, policies, live_sessions=live_sessions)

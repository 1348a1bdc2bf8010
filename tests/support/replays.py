"""Recordings replayed in this process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from spanfuse_processor.core.pricing import Prices
from spanfuse_processor.hosts.replay.ingest import read_into
from spanfuse_processor.hosts.replay.report import Report
from spanfuse_processor.hosts.replay.run import replay_calls
from spanfuse_processor.hosts.replay.sources import Files, Source
from spanfuse_processor.hosts.replay.states import MAX_LIVE_SESSIONS
from spanfuse_processor.otlp.normalise import Normaliser
from spanfuse_schemas import Policy


def replay_files(
    policy: Policy, paths: Iterable[Path], *, prices: Prices | None = None, live_sessions: int = MAX_LIVE_SESSIONS
) -> Report:
    """Replay files and directories.

    Args:
        prices: what calls cost that report no cost themselves; default: the list prices.
    """
    return replay_policies([policy], Files(tuple(paths)), prices=prices, live_sessions=live_sessions)[0]


def replay_policies(
    policies: Sequence[Policy],
    source: Source,
    *,
    prices: Prices | None = None,
    live_sessions: int = MAX_LIVE_SESSIONS,
    processes: int = 1,
) -> list[Report]:
    """The same of several policies, from any source."""
    (spool,) = read_into(source, [Normaliser(prices or Prices())])
    with spool:
        return replay_calls(spool, policies, live_sessions=live_sessions, processes=processes)

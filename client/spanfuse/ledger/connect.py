"""A ledger by its address."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from spanfuse.ledger.ledger import Ledger
from spanfuse.ledger.redis import RedisLedger
from spanfuse.ledger.sqlite import SqliteLedger


def connect(address: str) -> Ledger:
    """Open a ledger; a server is dialled with the first operation.

    Args:
        address: `redis://host:6379/0` (also `rediss` and `unix`), `sqlite:///relative/path` or `sqlite:////absolute/path`.
            Parameters after `?`: `timeout_ms`; for Redis also `tenant`, and `cluster=1`.

    Raises:
        ValueError: for another address.
        ImportError: for Redis without the extra `redis`.
    """
    parts = urlsplit(address)
    given = dict(parse_qsl(parts.query))
    settings: dict[str, Any] = {}
    if "timeout_ms" in given:
        settings["timeout_s"] = float(given.pop("timeout_ms")) / 1000
    if parts.scheme == "sqlite":
        return SqliteLedger(parts.path[1:], **settings)
    if parts.scheme not in ("redis", "rediss", "unix"):
        raise ValueError(f"a ledger is at redis://, rediss://, unix:// or sqlite:///, not {parts.scheme or 'nowhere'}")
    settings |= {"tenant": given.pop("tenant", "default"), "cluster": given.pop("cluster", "0") in ("1", "true")}
    rest = "&".join(f"{key}={value}" for key, value in given.items())
    return RedisLedger(urlunsplit(parts._replace(query=rest)), **settings)

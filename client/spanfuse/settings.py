"""What a Guard is made of, from what it is given or, where that says nothing, from the environment."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, cast

from spanfuse.decisions.feed import Feed
from spanfuse.decisions.judge import Judge, Mode
from spanfuse.decisions.probes import Probes

if TYPE_CHECKING:
    from spanfuse.decisions.leases import Leases
    from spanfuse.ledger.ledger import Ledger
    from spanfuse.ledger.purse import Purse
    from spanfuse.subscribers.base import Subscriber
    from spanfuse_schemas.signing import Keyring

_MODES: Final = ("observe", "enforce")

log = logging.getLogger("spanfuse")


def disabled() -> bool:
    """Whether `SPANFUSE_DISABLED` switches everything off."""
    return os.environ.get("SPANFUSE_DISABLED", "").lower() in ("1", "true", "yes", "on")


def mode_of(given: Mode | None) -> Mode | None:
    """The mode that is given, else `SPANFUSE_MODE`; None: as decisions say.

    Raises:
        ValueError: it is no mode. One of the environment that is none is passed over, with a warning.
    """
    if given is not None:
        if given not in _MODES:
            raise ValueError(f"mode is 'observe', 'enforce' or None, not {given!r}")
        return given
    named = os.environ.get("SPANFUSE_MODE", "").lower()
    if named in _MODES:
        return cast("Mode", named)
    if named:
        log.warning("SPANFUSE_MODE is observe or enforce, not %r: left as decisions say", named)
    return None


def purse_of(ledger: Ledger | str | None) -> Purse | None:
    """What pays from the ledger that is given, else from that of `SPANFUSE_LEDGER`; None: there is none."""
    where = ledger or os.environ.get("SPANFUSE_LEDGER")
    if not where:
        return None
    from spanfuse.ledger.purse import opened

    return opened(where)


def feed_of(
    subscriber: Subscriber | str | None,
    *,
    token: str | None,
    signing_key: str | Sequence[str],
    staleness_s: float,
    monotonic: Callable[[], float],
    local: bool,
) -> Feed:
    """What the Guard hears.

    Args:
        subscriber: this and the others are as of `Guard`.
        local: the core runs in this process, so that without an address there is no server.
    """
    from spanfuse.subscribers.connect import connect

    return Feed(connect(subscriber, nobody=local, token=token), staleness_s, monotonic, _keyring(signing_key))


def judge_of(
    mode: Mode | None,
    leases: Leases | str | None,
    purse: Purse | None,
    *,
    probe_lease_s: float,
    now_ns: Callable[[], int],
    monotonic: Callable[[], float],
) -> Judge:
    """What weighs decisions.

    Args:
        mode: this and the others are as of `Guard`.
        purse: beside whose ledger the fleet shares its probes, unless leases are given or `SPANFUSE_LEASES` names some.
    """
    return Judge(mode, Probes(probe_lease_s, _leases(leases, purse), monotonic), now_ns)


def _keyring(signing_key: str | Sequence[str]) -> Keyring | None:
    secrets = signing_key or os.environ.get("SPANFUSE_SIGNING_KEY")
    if not secrets:
        return None
    from spanfuse_schemas.signing import Keyring

    return Keyring(secrets.split(",") if isinstance(secrets, str) else secrets)


def _leases(given: Leases | str | None, purse: Purse | None) -> Leases | None:
    where = given or os.environ.get("SPANFUSE_LEASES")
    if where is None and purse is None:
        return None
    from spanfuse.decisions.leases import leases_at

    return leases_at(where, purse.ledger if purse is not None else None)

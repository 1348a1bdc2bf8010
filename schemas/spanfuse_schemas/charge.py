"""What the calls of a batch were, by the scopes that share something: a budget, a breaker, a baseline."""

from __future__ import annotations

import hashlib
from typing import Final

from pydantic import Field

from spanfuse_schemas.budget import BudgetOrder
from spanfuse_schemas.call import Reset
from spanfuse_schemas.guard_report import Refused
from spanfuse_schemas.record import SCHEMA_VERSION, Record

NAME_BITS: Final = 52
"""Bits of a name's hash: as an integer of JSON it is exact in every language."""
QUARTER_NS: Final = 900 * 10**9
"""A quarter of an hour, nanoseconds: clocks of time zones differ by multiples of it."""
MAX_NAMES: Final = 256
"""Names in one list of a charge; of more, those with the smallest hashes, which is a fair sample of all."""


def hashed_name(*parts: str) -> int:
    """A name, or several together, as an integer below 2^52: the upper bits of the BLAKE2b-64 hash of the UTF-8 parts,
    joined by a zero byte."""
    data = "\0".join(parts).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big") >> (64 - NAME_BITS)


class Grown(Record):
    """How large a session has become; only where `adaptive` is on."""

    session: str
    """Session id."""
    calls: int
    """Its model calls so far."""
    cost_nano_usd: int
    """Its cost so far, nano-dollars."""


class Told(Record):
    """What a Guard has told of one scope; see `GuardReport`."""

    source: str
    """The Guard."""
    seq: int
    """Number of its report. (scope, source, seq) is the identity under which it counts once."""
    since_ns: int
    """From when on it tells, nanoseconds since the Unix epoch."""
    until_ns: int
    """Until when."""
    calls: int = 0
    """Model calls that were let through and have ended."""
    refusals: tuple[Refused, ...] = ()
    """Of `global:*`: what was refused."""
    counts: dict[str, int] = Field(default_factory=dict)
    """Of `global:*`: what else a Guard counts, by the names under which hosts count it."""
    state: str = ""
    """Of `global:*`: `ready`, `stale`, … as `Guard.state`."""


class Charge(Record):
    """What the calls of one incoming batch add to one scope."""

    v: int = SCHEMA_VERSION
    """Schema version."""
    scope: str
    """`agent:<name>`, `trace:<id>`, `user:<id>`, `team:<name>`, `model:<name>` or `global:*`; a session's spend is kept with
    the session."""
    source: str
    """Where the batch came from, such as `spanfuse.calls-3`."""
    offset: int
    """Position of the batch in `source`. (scope, source, offset) is the identity under which a charge counts once;
    within a scope and source it only grows, so a reader drops what is not above the last one it saw."""
    cost_nano_usd: int
    """Cost, nano-dollars."""
    calls: int
    """Model calls."""
    input_tokens: int = 0
    """Input tokens."""
    output_tokens: int = 0
    """Output tokens."""
    at_ns: int
    """End of the latest call, nanoseconds since the Unix epoch: decides the budget period."""
    earlier: dict[int, tuple[int, int, int]] = Field(default_factory=dict)
    """Of the sums, what calls came to that ended in other quarters of an hour than the latest one: quarter since the Unix
    epoch → cost, tokens and calls. Every budget period begins with a quarter."""
    started_ns: int = 0
    """Start of the call that started last, nanoseconds since the Unix epoch: tells a probe of a half-open breaker."""
    failures: int = 0
    """Model calls that failed at the provider (429, 5xx, time-outs)."""
    sessions: int = 0
    """Sessions that began with a call of this scope."""
    loops: int = 0
    """Loops found (`repeat.*`, `near.*`, `cycle`, `stagnation`) that ask for a block."""
    members: tuple[int, ...] = ()
    """Who was at work, by `hashed_name`: of an agent its sessions; of a trace, session and agent together."""
    tripped: tuple[int, ...] = ()
    """Of an agent: sessions whose breaker opened and stayed so to the end of the batch, by `hashed_name`."""
    recovered: tuple[int, ...] = ()
    """Of an agent: sessions whose breaker closed again, by `hashed_name`."""
    lengths: dict[int, int] = Field(default_factory=dict)
    """Of an agent: change of the number of its sessions by calls made so far, by bucket. A session belongs to the agent that
    began it."""
    spends: dict[int, int] = Field(default_factory=dict)
    """The same by cost so far."""
    grown: tuple[Grown, ...] = ()
    """Of an agent with `adaptive` on: its sessions that have come into another bucket."""
    told: tuple[Told, ...] = ()
    """What Guards have told of the scope."""


class ChargeBatch(Record):
    """One message of the topic `spanfuse.charges`: charges for one partition, in order."""

    v: int = SCHEMA_VERSION
    """Schema version."""
    charges: tuple[Charge, ...] = ()
    """The charges."""
    resets: tuple[Reset, ...] = ()
    """Orders to reset breakers of scopes, applied before the charges."""
    orders: tuple[BudgetOrder, ...] = ()
    """Orders about budgets of scopes, carried out after the resets and before the charges."""

"""Everything that is remembered of one scope: bounded, versioned, serialisable."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgpack

from spanfuse_processor.core import accounts, snapshots
from spanfuse_processor.core.scopes.coverage import Coverage
from spanfuse_processor.core.scopes.distinct import Distinct
from spanfuse_schemas import Charge, Decision

STATE_VERSION: Final = 2
MAX_SOURCES: Final = 256
"""Sources whose last offset is remembered, the one silent longest forgotten first. A source is a partition of `spanfuse.calls`;
with more of them, a charge that comes twice may count twice."""
MAX_WARNED: Final = 128
LASTING: Final = frozenset({"agent", "model", "team", "global"})
"""Scopes that live on between their sessions."""
LASTING_S: Final = 35 * 24 * 3600
"""How long these are remembered without a call, seconds: a monthly budget has to outlive its month."""
_ALWAYS: Final = frozenset({"team", "global"})
"""Of these, the ones that do so however many sessions they had."""
_BEFORE_SESSIONS: Final = 7
"""Fields of a snapshot between the version and the number of sessions."""
KINDS: Final = frozenset({*LASTING, "trace", "user"})
"""Scopes that have a state: a rule or a list reads it; a user only if there is a budget, since there may be a million."""
_ACCOUNTED: Final = LASTING | {"user"}
"""Scopes whose accounts outlive them; a trace is over with its calls."""
_PLAIN: Final = 21
"""Fields of a snapshot after the key, of a scope that time does not change; one that it does has three more."""
_WITH_DUE: Final = b"\xdc\x00" + bytes([2 + _PLAIN + 3])
"""How the snapshot of one that time changes begins: the header of an array of so many fields."""
_TAIL: Final = struct.Struct(">qqd")
"""How it ends: see `Due`."""


class Due(NamedTuple):
    """What is read of a scope that time changes without restoring it."""

    at_ns: int
    """When something changes by itself, nanoseconds since the Unix epoch; 0: never."""
    blocked: int
    """Whether a budget stands against it, 0 or 1."""
    kept_s: float
    """How long its accounts have to be remembered without a call, seconds."""


class ScopeState:
    """What the rules remember of a scope. Money is nano-dollars, times are nanoseconds."""

    __slots__ = (
        "active", "blocked", "budgets", "calls", "cooldown_s", "cost_nano_usd", "coverage", "decision", "epoch",
        "failed", "failures", "fired", "input_tokens", "key", "last_ns", "lengths", "loops", "output_tokens", "sessions",
        "sources", "spends", "tripped", "trips", "warned",
    )  # fmt: skip

    def __init__(self, key: str) -> None:
        self.key = key
        """`agent:<name>`, `trace:<id>`, `user:<id>`, `team:<name>`, `model:<name>` or `global:*`."""
        self.sources: dict[str, int] = {}
        """Source → the last offset that was applied."""
        self.calls = self.cost_nano_usd = self.input_tokens = self.output_tokens = 0
        self.failures = self.sessions = self.loops = 0
        self.trips = 0
        """Sessions that were stopped, ever."""
        self.last_ns = 0
        """End of the newest call: the clock of the scope, which never goes back."""
        self.lengths: dict[int, int] = {}
        """Number of sessions by calls, by bucket."""
        self.spends: dict[int, int] = {}
        """Number of sessions by cost, by bucket."""
        self.active = Distinct()
        """Who was at work within the window of the rule that counts them."""
        self.tripped = Distinct()
        """Sessions stopped within the window of `agent.breaker`."""
        self.failed: dict[int, list[int]] = {}
        """Ten-second interval → model calls, and how many of them failed at the provider."""
        self.warned: list[int] = []
        """The last `MAX_WARNED` sessions that `adaptive` has warned of, by `hashed_name`."""
        self.fired: dict[str, int] = {}
        """When each rule and action last fired: a detection is told once, not once a charge."""
        self.decision: Decision | None = None
        """What the breaker holds against the scope; none when closed."""
        self.budgets: accounts.Accounts | None = None
        """What was spent of its budgets; none: there are none."""
        self.blocked: Decision | None = None
        """What a budget holds against the scope; none: nothing."""
        self.cooldown_s = 0.0
        """Present cooldown of the breaker, seconds; 0 before the first trip."""
        self.epoch = 0
        self.coverage = Coverage()
        """What Guards have told of its calls, and what was seen of them."""

    @property
    def kind(self) -> str:
        """`agent`, `trace`, `user`, `team`, `model` or `global`."""
        return self.key.partition(":")[0]

    @property
    def name(self) -> str:
        """The key without its kind."""
        return self.key.partition(":")[2]

    @property
    def standing(self) -> Decision | None:
        """What stands against the scope: the stronger of what the breaker and a budget hold, a block before a nudge, then
        what holds longer."""
        if self.blocked is None or self.decision is None:
            return self.decision or self.blocked
        return max(self.blocked, self.decision, key=_hold)

    def stand_again(self, decision: Decision) -> None:
        """What stands is decided anew, as under another mode."""
        if self.standing is self.decision:
            self.decision = decision
        else:
            self.blocked = decision

    def due_ns(self) -> int:
        """When something changes by itself: a block of a budget ends, or an extension does, or spans have had their time to
        come; 0: never."""
        held = [d for d in (self.blocked, self.decision) if d is not None and d.lapses]
        moments = [d.expires_at_ns for d in held if d.expires_at_ns is not None]
        if self.budgets is not None:
            moments += self.budgets.extensions_end()
        if self.coverage.due_ns:
            moments.append(self.coverage.due_ns)
        return min(moments, default=0)

    def applies(self, charge: Charge) -> bool:
        """Whether a charge is new here; if so, it is from now on not."""
        if charge.offset <= self.sources.get(charge.source, -1):
            return False
        self.sources.pop(charge.source, None)
        self.sources[charge.source] = charge.offset
        if len(self.sources) > MAX_SOURCES:
            del self.sources[next(iter(self.sources))]
        return True

    def add(self, charge: Charge) -> None:
        """Add up."""
        self.calls += charge.calls
        self.cost_nano_usd += charge.cost_nano_usd
        self.input_tokens += charge.input_tokens
        self.output_tokens += charge.output_tokens
        self.failures += charge.failures
        self.sessions += charge.sessions
        self.loops += charge.loops
        self.trips += len(charge.tripped)
        self.last_ns = max(self.last_ns, charge.at_ns)
        if charge.lengths:
            _move(self.lengths, charge.lengths)
        if charge.spends:
            _move(self.spends, charge.spends)

    def kept_s(self, idle_timeout_s: float) -> float:
        """How long it is remembered without a call, seconds. A name that came up for a few sessions only, as an agent may
        invent them, goes as its sessions go."""
        kept = _kept_s(self.kind, self.sessions, idle_timeout_s)
        return max(kept, self._accounts_kept_s())

    def _accounts_kept_s(self) -> float:
        return self.budgets.lasting_s() if self.budgets is not None and self.kind in _ACCOUNTED else 0.0

    @staticmethod
    def stored_kept_s(key: str, data: bytes, idle_timeout_s: float) -> float:
        """`kept_s` of a snapshot, without restoring it: many are asked in a row."""
        kind = key.partition(":")[0]
        due = ScopeState.stored_due(data)
        least_s = max(due.kept_s if due is not None else 0.0, idle_timeout_s)
        if kind not in LASTING:
            return least_s
        return max(_kept_s(kind, 0 if kind in _ALWAYS else _sessions(data), idle_timeout_s), least_s)

    @staticmethod
    def stored_due(data: bytes) -> Due | None:
        """What a snapshot of a scope that time changes tells without restoring it; none of one that it does not change."""
        return Due(*_TAIL.unpack(data[-_TAIL.size :])) if data.startswith(_WITH_DUE) else None

    def forget(self) -> None:
        """What an operator's reset forgets: what has led to a stop, not what was spent nor how large sessions are."""
        self.active, self.tripped = Distinct(), Distinct()
        self.failed, self.fired, self.warned, self.cooldown_s = {}, {}, [], 0.0

    def snapshot(self) -> bytes:
        """The state as versioned msgpack."""
        return snapshots.pack(
            STATE_VERSION, self.key, self.sources, self.calls, self.cost_nano_usd, self.input_tokens, self.output_tokens,
            self.failures, self.sessions, self.loops, self.trips, self.last_ns, self.lengths, self.spends,
            self.active.snapshot(), self.tripped.snapshot(), self.failed, self.warned, self.fired,
            self.decision.to_json() if self.decision else b"", self.cooldown_s, self.epoch, self.coverage.snapshot(),
            *self._spent(),
        )  # fmt: skip

    def _spent(self) -> tuple[Any, ...]:
        due_ns = self.due_ns()
        if self.budgets is None and self.blocked is None and not due_ns:
            return ()
        due = _TAIL.pack(due_ns, self.blocked is not None, self._accounts_kept_s())
        return (
            accounts.dumped(self.budgets) if self.budgets is not None else [],
            self.blocked.to_json() if self.blocked else b"",
            due,
        )

    @classmethod
    def restore(cls, data: bytes) -> ScopeState:
        """The inverse of `snapshot`.

        Raises:
            StateError: if the bytes are no snapshot, or one of another version.
        """
        return snapshots.unpack(data, "scope", STATE_VERSION, cls._restored)

    @classmethod
    def _restored(cls, key: str, fields: list[Any]) -> ScopeState:
        state = cls(key)
        (
            state.sources, state.calls, state.cost_nano_usd, state.input_tokens, state.output_tokens, state.failures,
            state.sessions, state.loops, state.trips, state.last_ns, state.lengths, state.spends, active, tripped,
            state.failed, state.warned, state.fired, decision, state.cooldown_s, state.epoch, coverage,
        ) = fields[:_PLAIN]  # fmt: skip
        if len(fields) > _PLAIN:
            spent, blocked, _ = fields[_PLAIN:]
            state.budgets = accounts.loaded(spent) if spent else None
            state.blocked = Decision.from_json(blocked) if blocked else None
        state.coverage = Coverage.restore(coverage)
        state.active, state.tripped = Distinct.restore(active), Distinct.restore(tripped)
        state.decision = Decision.from_json(decision) if decision else None
        return state


def _hold(decision: Decision) -> tuple[bool, bool, int]:
    expires = decision.expires_at_ns
    return decision.action == "block", expires is None, expires or 0


def _kept_s(kind: str, sessions: int, idle_timeout_s: float) -> float:
    lasts = kind in LASTING and (sessions > 10 or kind in _ALWAYS)
    return max(LASTING_S, idle_timeout_s) if lasts else idle_timeout_s


def _sessions(data: bytes) -> int:
    """Number of sessions in a snapshot; 0 if it cannot be read."""
    reader = msgpack.Unpacker(raw=False, unicode_errors="surrogatepass", strict_map_key=False)
    reader.feed(data)
    try:
        reader.read_array_header()
        if reader.unpack() != STATE_VERSION:
            return 0
        for _ in range(_BEFORE_SESSIONS):
            reader.skip()
        return int(reader.unpack())
    except Exception:  # whatever stands there, it is no snapshot
        return 0


def _move(histogram: dict[int, int], changes: Mapping[int, int]) -> None:
    for bucket, change in changes.items():
        histogram[bucket] = histogram.get(bucket, 0) + change
        if not histogram[bucket]:
            del histogram[bucket]

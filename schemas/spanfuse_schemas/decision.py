"""What a Guard obeys."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from spanfuse_schemas.call import Fingerprint
from spanfuse_schemas.detection import Evidence
from spanfuse_schemas.fingerprint import alike
from spanfuse_schemas.record import SCHEMA_VERSION, Record

State = Literal["closed", "open", "half_open"]
Scope = Literal["session", "trace", "agent", "user", "team", "global"]

LAST_EPOCH: Final = 2**63 - 1
"""Epoch of a record that ends a key whatever its epoch was: it closes what was issued before it, and the key begins anew with
what is issued after it. It is sent before a tombstone where records are signed, since nothing signs a tombstone."""


class LoopPrint(Record):
    """What the next call of a loop looks like before it is made."""

    canon: str = ""
    """Canonical hash of its new input, 16 hex digits. Empty: whatever the action brings."""
    near: str = ""
    """SimHash of its new input, 16 hex digits, where the loop was found by nearness."""
    size: int = 0
    """Length of its new input, characters; only with `near`: a text that grows is no repetition."""
    action: str = ""
    """Canonical hash of the action that its new input answers, 16 hex digits. Empty: the agent started over."""
    fresh: bool = False
    """A call that answers no action belongs to the loop as well: only tool spans told of it, and an agent that puts all it
    knows into one prompt shows no more than that."""


class Decision(Record):
    """The present state of the breaker of one key. The newest epoch of a key replaces all before it."""

    v: int = SCHEMA_VERSION
    """Schema version."""
    key: str
    """`session:<id>`, `trace:<id>`, `agent:<name>`, `user:<id>`, `team:<name>` or `global:*`."""
    state: State
    """State of the circuit breaker."""
    action: Literal["allow", "nudge", "block"] = "allow"
    """What a Guard does with the next call of that key."""
    mode: Literal["observe", "enforce"] = "observe"
    """`observe`: a Guard counts what it would have refused, and lets it pass."""
    rule: str = ""
    """The rule that decided."""
    message: str = ""
    """For people: what happened and what to do. For a nudge: the text to add to the conversation."""
    evidence: Evidence = Evidence()
    """The numbers behind the decision."""
    issued_at_ns: int
    """Event time of the decision, nanoseconds since the Unix epoch."""
    expires_at_ns: int | None = None
    """When an open breaker becomes half-open, nanoseconds since the Unix epoch; none: not by itself."""
    lapses: bool = False
    """From `expires_at_ns` on it holds nobody back, and asks for no probe: the period of a budget is over."""
    epoch: int = 0
    """Grows with every change of the key."""
    probes: int = Field(default=1, ge=1, le=100)
    """Calls that a half-open breaker lets through over the whole fleet until their outcome is known."""
    probes_passed: int = Field(default=0, ge=0)
    """Of them, those that went well so far. Only the processor counts them."""
    scope_of_block: Literal["loop", "all"] = "all"
    """`loop`: only calls whose new input is in `loop`, so that an agent which leaves the loop is let through."""
    loop: tuple[LoopPrint, ...] = ()
    """The inputs of the loop."""
    max_distance: int = 0
    """Largest Hamming distance of two SimHashes, bits, at which an input still belongs to the loop."""
    conditional: bool = False
    """The loop is not yet complete: only a call that is shown to repeat it is refused, never one of unknown input."""
    reset: bool = False
    """An operator closed the breaker, and what was counted is forgotten."""
    signature: str = ""
    """`<key id>:<hex>`, an HMAC-SHA256 over the other fields, where the processor has a signing key (`signing.py`)."""

    def supersedes(self, epoch: int, issued_at_ns: int) -> bool:
        """Whether this is later than a decision of the same key: by the epoch, at the end of all epochs by the time."""
        if LAST_EPOCH in (epoch, self.epoch):
            return self.issued_at_ns > issued_at_ns
        return self.epoch > epoch

    def covers(self, new_input: Fingerprint | None, prior: Fingerprint | None = None, spoken: bool = False) -> bool:
        """Whether this block applies to a call.

        Args:
            new_input: fingerprint of the call's new input; `None`: the caller does not show it.
            prior: fingerprint of the action that this input answers; `None`: there is none.
            spoken: somebody says something in it beside the results of tools; what they say is no part of the loop.
        """
        if self.scope_of_block == "all":
            return not self.conditional
        if new_input is None or not new_input.canon:
            return not self.conditional
        before = prior.canon if prior else ""
        return any(self._is_of(p, new_input, before) for p in self.loop if p.canon or not spoken)

    def repeats(self, action: Fingerprint | None) -> bool:
        """Whether an action is one that the loop repeats."""
        return action is not None and bool(action.canon) and any(p.action == action.canon for p in self.loop)

    def _is_of(self, p: LoopPrint, new_input: Fingerprint, before: str) -> bool:
        if p.near and alike(p.near, p.size, new_input.near, new_input.size, self.max_distance):
            return True
        if p.fresh and not before:
            return not self.conditional
        return bool(p.canon or p.action) and p.canon in ("", new_input.canon) and p.action in ("", before)

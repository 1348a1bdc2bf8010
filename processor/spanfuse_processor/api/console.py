"""What the API, and through it the command line and the page, needs of a host, embedded or over Kafka."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from pydantic import Field

from spanfuse_processor.config.overlay import Overlay
from spanfuse_processor.core.budgets import Ordered
from spanfuse_processor.core.explain import RuleView
from spanfuse_processor.exporters.hub import Listener
from spanfuse_processor.exporters.readmodel.model import (
    DetectionPage,
    DetectionQuery,
    MinuteRow,
    SeriesKind,
    SessionPage,
    SessionQuery,
    SessionRow,
    StepRow,
)
from spanfuse_schemas import BudgetOrder, Decision, PolicyNotice
from spanfuse_schemas.record import Record


class SessionDetail(SessionRow):
    """A session by itself."""

    decision: Decision | None = None
    """What its breaker holds; none when closed."""
    budgets: tuple[dict[str, Any], ...] = ()
    """The accounts of its own budgets; see `core.budgets.row`."""


class Explanation(Record):
    """What is counted about a key, and why its breaker did or did not trip."""

    key: str
    """The key, such as `session:checkout-42` or `agent:research`."""
    known: bool
    """Whether anything is known of it; if not, the rules are told as for one that has done nothing yet."""
    decision: Decision | None = None
    """What stands against it; none: nothing."""
    others: tuple[Decision, ...] = ()
    """For a session: what stands against its agent, its user, its team, or all, and stops its calls as well."""
    rules: tuple[RuleView, ...] = ()
    """Each rule and each budget that holds for it, those of its agent, user, team and all included: what stands first, then
    what is nearest to its threshold."""
    policy_epoch: int = 0
    """Epoch of the policy by which it is told."""


class OverlayNotice(Record):
    """What an operator has laid over the configuration file."""

    overlay: Overlay
    """The sections that hold in place of the file's."""
    actor: str = ""
    """Who did it."""
    reason: str = ""
    """Why."""
    at_ns: int = Field(ge=0)
    """When, nanoseconds since the Unix epoch."""
    in_force: bool = True
    """Whether it still holds; not once what the file says has changed."""


class DryRun(Record):
    """What another policy would change about recent traffic. `totals`, `by_rule` and the three lists are those of
    `hosts.replay.diff.diff`: `old` is the policy in force, `new` the one that is tried."""

    calls: int
    """Calls that were replayed."""
    from_ns: int = 0
    """End of the first of them, nanoseconds since the Unix epoch."""
    to_ns: int = 0
    """End of the last."""
    complete: bool = True
    """Whether all calls of the time asked for are in it; not where there were more than are kept or read."""
    totals: dict[str, Any] = Field(default_factory=dict)
    """`old` and `new`: sessions, sessions_blocked, calls, saved_calls, cost_nano_usd, saved_nano_usd, …"""
    by_rule: dict[str, Any] = Field(default_factory=dict)
    """Rule → `old` and `new`: detections, sessions, warn, nudge, block, shadow, blocked_sessions, saved_nano_usd, …"""
    stopped_by_new_only: tuple[dict[str, Any], ...] = ()
    """Sessions that would be stopped, and were not by the rules in force: session, calls, blocked_at, rule, saved_calls, …"""
    stopped_by_old_only: tuple[dict[str, Any], ...] = ()
    """Sessions that would be stopped no longer."""
    stopped_elsewhere: tuple[dict[str, Any], ...] = ()
    """Sessions that would be stopped sooner or later than now: session, `old`, `new`."""


class Console(Protocol):
    """The host, as operators see it.

    Any method may raise `UnavailableError` (503: a store or broker is away), `QueryError` (400: it cannot be asked for) or
    another `SpanfuseError` (409: it is not possible here). Times are nanoseconds since the Unix epoch, money is nano-dollars.
    """

    @property
    def ready(self) -> bool:
        """Whether it does what it is there for: spans are taken, or the topics are followed."""

    @property
    def live(self) -> bool:
        """Whether it makes progress; if not, it should be started anew."""

    @property
    def policy(self) -> PolicyNotice:
        """The policy in force, as Guards are told it."""

    async def status(self) -> dict[str, Any]:
        """Version, host (`embedded` or `stream`), mode, counts, and how fresh all else is; see docs/api.md."""

    async def sessions(self, query: SessionQuery) -> SessionPage:
        """Sessions as they are listed."""

    async def session(self, session: str) -> SessionDetail | None:
        """One session; none if it is not known."""

    async def timeline(self, session: str, limit: int) -> list[StepRow]:
        """The last steps of a session, oldest first; empty if it is not known."""

    async def detections(self, query: DetectionQuery) -> DetectionPage:
        """What rules found, newest first."""

    def decisions(self) -> list[Decision]:
        """What stands at present; what is open and has expired as half-open."""

    async def history(self, key: str, limit: int) -> list[Decision]:
        """What was decided about a key, newest first."""

    async def agents(self) -> list[dict[str, Any]]:
        """What each agent came to, dearest first; see docs/api.md."""

    async def models(self) -> list[dict[str, Any]]:
        """What each model came to, dearest first."""

    async def series(self, kind: SeriesKind, name: str, minutes: int) -> list[MinuteRow]:
        """The last minutes, oldest first, one row each, the running one last."""

    async def explain(self, key: str) -> Explanation:
        """What is counted about a key, and why it did or did not trip."""

    async def budgets(self, scope: str = "") -> list[dict[str, Any]]:
        """The accounts of one scope, or of all, in the periods that run."""

    async def order(self, order: BudgetOrder) -> Ordered:
        """Do what an operator has ordered about a budget."""

    async def audit(self, limit: int) -> list[bytes]:
        """What became of operators' last orders about budgets, newest first, as JSON of `Audited`."""

    async def rebuild(self) -> int:
        """Set the ledger's books to what the spans tell; how many accounts."""

    async def reset(self, key: str, actor: str) -> Decision | None:
        """Close a breaker; none if nothing is known of the key."""

    async def overlay(self) -> OverlayNotice | None:
        """What was laid over the configuration file last; none: nothing, or it was taken away."""

    async def put_policy(self, overlay: Overlay, actor: str, reason: str) -> PolicyNotice:
        """Lay sections over the configuration file, in place of any before; an empty one takes them away. It holds until what
        the file says changes.

        Returns:
            The policy that is in force then.
        """

    async def dry_run(self, overlay: Overlay, since_ns: int) -> DryRun:
        """What the file with these sections over it would change about the calls since then, beside the policy in force."""

    def follow(self) -> tuple[Iterable[bytes], Listener]:
        """What stands at present as server-sent events, and a listener for what changes from now on: what Guards hear."""

    def events(self, last_id: str = "") -> tuple[Iterable[bytes], Listener]:
        """All that happens, as server-sent events with ids, from behind `last_id` on, and a listener for what is to come.

        Events: `decision`, `detection`, `policy`, `audit` (an order about a budget), `sessions` (at most one a second:
        `{"changed": [ids], "more": false}`). An id that is not known any more, as before a restart, gives one event `anew`:
        load what is shown again.
        """

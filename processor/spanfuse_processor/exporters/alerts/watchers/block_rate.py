"""`policy.block_rate`: so many sessions are stopped at once that it is rather the policy that is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from spanfuse_processor.config.alerts import BlockRate as Settings
from spanfuse_processor.exporters.alerts.signal import Over, Signal
from spanfuse_processor.exporters.readmodel.model import SessionRow
from spanfuse_schemas import Evidence

RULE: Final = "policy.block_rate"
KEY: Final = "global:*"
_BELOW: Final = 0.8
"""It is over below this part of the share, so that it does not come and go at the edge."""


class BlockRates:
    """Whether it was told."""

    def __init__(self) -> None:
        self._told = False

    def look(self, sessions: Sequence[SessionRow], now_ns: int, settings: Settings) -> Iterator[Signal | Over]:
        """Compare.

        Args:
            sessions: those at work.
        """
        stopped = [row for row in sessions if row.action == "block"]
        share = len(stopped) / len(sessions) if sessions else 0.0
        if self._told and share < _BELOW * settings.share:
            self._told = False
            yield Over(KEY, now_ns, RULE)
        elif not self._told and share >= settings.share and len(sessions) >= settings.min_sessions:
            self._told = True
            yield _signal(stopped, len(sessions), now_ns, settings)

    def snapshot(self) -> Any:
        """As JSON."""
        return self._told

    def restore(self, found: Any) -> None:
        """The inverse."""
        self._told = bool(found)


def _signal(stopped: Sequence[SessionRow], of: int, now_ns: int, settings: Settings) -> Signal:
    (rule, most), *_ = Counter(row.rule for row in stopped).most_common(1)
    (agent, by_agent), *_ = Counter(row.agent for row in stopped).most_common(1)
    enforced = any(row.mode == "enforce" for row in stopped)
    does = "are stopped" if enforced else "would be stopped"
    percent = 100 * len(stopped) / of
    who = f"; {by_agent} of them are of agent `{agent}`" if agent else ""
    return Signal(
        rule=RULE, key=KEY, severity="critical" if enforced else "warning", holds=True, at_ns=now_ns,
        title=f"{percent:.0f} % of all sessions {does}",
        message=f"{len(stopped)} of {of} sessions at work {does}, {most} by {rule}{who}. So many at once are rather a rule "
        f"that is set wrong, or a provider that fails, than runaways: look at some, and set {rule} to shadow or warn if it is.",
        evidence=Evidence(
            count=len(stopped), threshold=100 * settings.share, value=round(percent, 1), unit="% of sessions",
            since_ns=now_ns - int(settings.window_s * 1e9),
        ),
    )  # fmt: skip

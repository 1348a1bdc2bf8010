"""retries: an agent, a team, or all together run into the limits of a provider.

Each session by itself may fail too rarely to be told of. None of them is to blame: together they ask for more than the
provider gives, and every retry adds to it.
"""

from __future__ import annotations

from math import ceil
from typing import Final

from spanfuse_processor.core.finding import Finding, action_of
from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_schemas import Charge, Evidence, Rules

STEP_S: Final = 10
"""Length of an interval in which calls are counted together, seconds."""


def detect(state: ScopeState, charge: Charge, rules: Rules) -> Finding | None:
    """Count calls and failures of the interval, and add up those of the window."""
    rule = rules.retries
    now, at = (ns // (STEP_S * 10**9) for ns in (state.last_ns, charge.at_ns))
    since = now - ceil(rule.window_s / STEP_S)
    if at > since:
        counts = state.failed.setdefault(at, [0, 0])
        counts[0] += charge.calls
        counts[1] += charge.failures
    if not charge.failures:
        for old in [step for step in state.failed if step <= since]:
            del state.failed[old]
        return None
    state.failed = {step: counts for step, counts in state.failed.items() if step > since}
    calls, failures = (sum(counts[i] for counts in state.failed.values()) for i in (0, 1))
    if rule.mode == "off" or failures < rule.count or failures < rule.share * calls:
        return None
    who = {"global": "all agents"}.get(state.kind, f"{state.kind} `{state.name}`")
    return Finding(
        rule="retries",
        mode=rule.mode,
        action=action_of(rule.mode),
        message=f"{failures} of {calls} model calls of {who} failed at the provider within {rule.window_s:g} s. Pace them: "
        "fewer at a time, longer pauses, no retries of retries. No single session is to blame.",
        evidence=Evidence(
            count=failures, threshold=rule.count, value=failures, unit="failures", since_ns=(since + 1) * STEP_S * 10**9
        ),
    )

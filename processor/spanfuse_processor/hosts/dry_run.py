"""Another policy, tried on recent calls beside the one in force; nothing is enforced, and nobody waits for it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack

from spanfuse_processor.api.console import DryRun
from spanfuse_processor.hosts.replay.alone import Alone
from spanfuse_processor.hosts.replay.diff import diff
from spanfuse_schemas import Call, Policy

MAX_CALLS = 50_000
"""Calls that are replayed, some 0.2 ms each for both policies."""
MAX_LISTED = 200
"""Sessions in each list."""


def compare(old: Policy, new: Policy, calls: Iterable[Call], *, complete: bool = True) -> DryRun:
    """Replay calls under both, each from a state that knows nothing of what was before.

    Args:
        old: the policy in force.
        calls: in the order in which they were applied.
        complete: whether these are all that were asked for.
    """
    count, first_ns, last_ns = 0, 0, 0
    with ExitStack() as stack:
        replays = [stack.enter_context(Alone(policy)) for policy in (old, new)]
        for call in calls:
            if count == MAX_CALLS:
                complete = False
                break
            count += 1
            first_ns, last_ns = min(first_ns or call.end_ns, call.end_ns), max(last_ns, call.end_ns)
            for replay in replays:
                replay.call(call)
        found = diff(*(replay.finished() for replay in replays))
    lists = {name: tuple(rows[:MAX_LISTED]) for name, rows in found.items() if isinstance(rows, list)}
    return DryRun(
        calls=count, from_ns=first_ns, to_ns=last_ns, complete=complete, totals=found["totals"], by_rule=found["by_rule"],
        **lists,
    )  # fmt: skip

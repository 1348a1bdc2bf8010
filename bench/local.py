"""What a call costs inside the agent's process, by the length of its new text: the check alone, the local host's step, and what
others do at the same place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from bench.by_size import PEERS, SIZES, peers_us
from bench.peers import environment
from bench.peers.protocol import median_us
from bench.report import Figure, Unmeasured
from spanfuse import Guard

_RULES = (
    "near",
    "drift",
    "stagnation",
    "velocity",
    "velocity.cost",
    "velocity.burn",
    "spend.idle",
    "spend.creep",
    "context",
)
"""What is no exact repeat, cycle, cap or budget."""


def run() -> Iterator[Figure | Unmeasured]:
    """For each length: ours, as multiples of budgetctl's, then the others."""
    theirs = {peer: peers_us(peer) for peer in PEERS}
    for n, size in enumerate(SIZES):
        base = theirs["budgetctl"]
        baseline = None if isinstance(base, str) else base[n]
        at = f"{size:,} characters"

        def figure(name: str, us: float, aim: str = "", at: str = at, baseline: float | None = baseline) -> Figure:
            return Figure(f"{name}, {at}", us, "us/call", baseline, "budgetctl", aim)

        yield figure("Guard.check", median_us(_checked, size), "< 1")
        yield figure("local step, all rules", median_us(_all_rules, size), "< budgetctl")
        yield figure("local step, repeats, cycles, caps and budgets", median_us(_exact_rules, size), "< budgetctl")
        for peer, what in PEERS.items():
            name, found = f"{peer} {environment.PINS[peer]} {what}", theirs[peer]
            yield Unmeasured(f"{name}, {at}", found) if isinstance(found, str) else figure(name, found[n])


def _checked(texts: list[str]) -> Callable[[], None]:
    inputs, guard = _inputs(texts), Guard(local=True)

    def agent() -> None:
        for messages in inputs:
            guard.check(session="s", messages=messages)

    return agent


def _all_rules(texts: list[str]) -> Callable[[], None]:
    return _agent(texts, True)


def _exact_rules(texts: list[str]) -> Callable[[], None]:
    return _agent(texts, {rule: {"mode": "off"} for rule in _RULES})


def _agent(texts: list[str], rules: Any) -> Callable[[], None]:
    inputs = _inputs(texts)

    def agent() -> None:
        guard = Guard(local=rules)
        for messages in inputs:
            with guard.call(model="gpt-4o-mini", messages=messages, session="s"):
                pass

    return agent


def _inputs(texts: list[str]) -> list[list[dict[str, str]]]:
    return [[{"role": "user", "content": text}] for text in texts]

"""Sequences of calls that lead a session to the limit of one rule; spans of tools one a second, unless said otherwise."""

from __future__ import annotations

from typing import Any

from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.session import SessionState
from spanfuse_schemas import Call, Fingerprint, Policy
from tests.support.agents import failure, prompt, tool

TEXT = "The harbour lies to the north of the old town, behind the mill. " * 3
"""An observation long enough to tell something."""
FOUR_OF_SEVEN = (
    "alpha bravo charlie delta xenon yankee",
    "alpha bravo charlie echo xenon zulu",
    "alpha bravo charlie delta echo",
)
THREE_OF_FIVE = ("alpha bravo charlie delta", "alpha bravo charlie echo", "alpha bravo delta echo")


ORDER = ("warn", "nudge", "block")


def strongest(calls: list[Call], rules: Policy, rule: str) -> str:
    """What the rule asks for in the end; empty: it says nothing."""
    pipeline, session = Pipeline(rules), SessionState("s")
    found = [d for c in calls for d in pipeline.step(session, c).detections if d.rule.startswith(rule)]
    return max((d.action for d in found if not d.conditional), key=ORDER.index, default="")


def same(count: int, *, every: float = 1) -> list[Call]:
    return [tool("look", "here", TEXT, at=i * every) for i in range(count)]


def failing(count: int, *, every: float = 1) -> list[Call]:
    said = ("no such file", "access denied", "the disk is full", "it is locked")
    return [tool("open", "x", f"Error: {said[i % 4]}", error="E", at=i * every) for i in range(count)]


def missing(count: int) -> list[Call]:
    return [tool("open", f"file {chr(97 + i)}{chr(97 + i)}", "Error: no such file", at=i) for i in range(count)]


def again(count: int, *, every: float = 1) -> list[Call]:
    return [prompt("Is it done?", at=i * every) for i in range(count)]


def polls(count: int, *, every: float = 1) -> list[Call]:
    return [tool("poll", "job", f"stage {chr(97 + i)}{chr(97 + i)}", at=i * every) for i in range(count)]


def apart(*positions: int) -> list[Call]:
    """The same failure at these places, and something new at all others up to the last."""
    return [
        tool("test", "all", "Error: expected seven", at=i) if i in positions else tool("edit", f"f{i}", TEXT, at=i)
        for i in range(max(positions) + 1)
    ]


def round_and_round(
    period: int, steps: int, *, every: float = 1, fails: bool = False, differ: bool = False
) -> list[Call]:
    return [
        tool(
            f"t{i % period}",
            i % period,
            f"Error: {i % period}" if fails and not i % period else f"step {i if differ else i % period}: {TEXT}",
            at=i * every,
        )
        for i in range(steps)
    ]


def refused(count: int) -> list[Call]:
    return [failure("400", error_class="client", at=i) for i in range(count)]


def passes(count: int, *, pages: int = 3) -> list[Call]:
    steps = [(k, p) for k in range(count) for p in range(pages)]
    return [
        tool("rows", {"table": "a", "offset": p * 10}, f"rows {k} {p}: {TEXT}", at=i) for i, (k, p) in enumerate(steps)
    ]


def labelled(count: int) -> list[Call]:
    return [tool("find", {"text": "x", "label": f"run-{i}"}, TEXT, at=i) for i in range(count)]


def worded(*queries: str) -> list[Call]:
    return [tool("search", {"query": q}, TEXT, at=i) for i, q in enumerate(queries)]


def bits_apart(distance: int) -> list[Call]:
    """Long prompts whose SimHashes lie so many bits from one another."""
    near = (1 << 60, (1 << 60) | (2**distance - 1))
    prints = [
        Fingerprint(exact=f"{i + 1:016x}", canon=f"{i + 1:016x}", near=f"{near[i % 2]:016x}", size=900)
        for i in range(3)
    ]
    return [prompt(f"p{i}", at=i).model_copy(update={"input": p}) for i, p in enumerate(prints)]


def half_known(new: int, steps: int = 30) -> list[Call]:
    """A window with so many new steps at its beginning; two known ones in turn fill the rest."""
    known = [("look", f"known-{i}", f"known {i}: {TEXT}") for i in range(2)]
    fresh = [("look", f"new-{i}", f"new {i}: {TEXT}") for i in range(new)]
    made = [*known, *fresh, *(known[i % 2] for i in range(steps - new))]
    return [tool(n, a, r, at=i) for i, (n, a, r) in enumerate(made)]


def echoes(count: int) -> list[Call]:
    return [tool("echo", f"w{i}", f"w{i}", at=i, echoes=True) for i in range(count)]


def asked(count: int, **fields: Any) -> list[Call]:
    return [prompt(f"question {i} about thing{i}", at=i, lasts=0, **fields) for i in range(count)]


def probed(start: float, answers: int = 1) -> list[Call]:
    """Five failures open the breaker at 4 s; then answers to calls, the first of which started so long after."""
    probes = (prompt(f"hello {i}", at=4 + start + i, lasts=1) for i in range(answers))
    return [*(failure(at=i, lasts=0) for i in range(5)), *probes]


def failed_probes(count: int) -> list[Call]:
    calls, at = [failure(at=i, lasts=0) for i in range(5)], 4.0
    for i in range(count):
        at += 300 * 2**i + 10
        calls.append(failure(at=at, lasts=0))
    return calls

"""What an adapter and the driver say to one another: JSON lines, one session at a time. Nothing but the standard library.

An adapter is run as `python -m bench.peers.NAME` by the Python of the peers' environment. It says which version it has found,
then answers each session, `{"calls": [Call, …]}` on standard input, with `{"refused": index or null}`: the 0-based index of
the first model call that the peer would not have let through. With `--time N…` it prints instead what its hot path costs on
texts of N characters, `{"us": [...]}`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any, Final, TextIO, TypedDict

TIMED_CALLS: Final = 100
"""Calls of one agent that are timed together, each with a text of its own."""
TIMED_AGENTS: Final = 15
"""Agents timed; the median counts."""

_WORDS: Final = [
    f"{a}{b}" for a in ("re", "un", "over", "in", "") for b in ("act", "form", "view", "port", "sent", "load")
]


class Step(TypedDict):
    """One action of a model call and what it brought."""

    tool: str
    """Name of the tool; empty where the reply is a text."""
    arguments: Any
    """Arguments of the tool as a JSON value, or the text."""
    result: str
    """Result, as the next model call was told it; for a text, all that was new in that call."""


class Call(TypedDict):
    """One model call of a session."""

    start_s: float
    """Start, seconds since the Unix epoch."""
    end_s: float
    model: str
    failed: bool
    """It ended with an error."""
    cost_usd: float
    messages: list[dict[str, Any]]
    """Input in the form of the OpenAI Chat API."""
    steps: list[Step]
    """What the reply did; known once the call is over, the results once the next call starts."""


FirstRefused = Callable[[Sequence[Call]], int | None]
"""Runs the peer over the calls of a session: the 0-based index of the first call refused."""
HotPath = Callable[[list[str]], Callable[[], None]]
"""Given the new text of each call of an agent: what the peer does for those calls, as for a new agent each time."""


def before_each_call(calls: Sequence[Call], observe: Callable[[Step], bool]) -> int | None:
    """The first call before which an observer of finished steps had spoken up.

    Args:
        observe: shows the peer one step; whether it has objected.
    """
    for index in range(1, len(calls)):
        objections = [observe(step) for step in calls[index - 1]["steps"]]
        if any(objections):
            return index
    return None


def texts(size: int, count: int = TIMED_CALLS) -> list[str]:
    """Different texts of `size` characters: sentences of a dozen words and a number."""
    chance = random.Random(size)
    return [_text(chance, size) for _ in range(count)]


def _text(chance: random.Random, size: int) -> str:
    text = ""
    while len(text) < size:
        text += f"{' '.join(chance.choices(_WORDS, k=12))}, {chance.randrange(100)} of {chance.randrange(1000)}.\n"
    return text[:size]


def median_us(hot_path: HotPath, size: int) -> float:
    """Median microseconds a call, of processor time: a neighbour at work shall not count."""
    agent, times = hot_path(texts(size)), []
    agent()
    for _ in range(TIMED_AGENTS):
        start = time.process_time()
        agent()
        times.append((time.process_time() - start) / TIMED_CALLS * 1e6)
    return statistics.median(times)


def main(distribution: str, first_refused: FirstRefused, hot_path: HotPath) -> None:
    """Serve sessions from standard input until it ends, or time the hot path.

    Args:
        distribution: the peer's name in the package index.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--time", type=int, nargs="+", metavar="N")
    sizes = parser.parse_args().time
    answers = _own_stdout()
    if sizes:
        _say(answers, {"us": [median_us(hot_path, size) for size in sizes]})
        return
    _say(answers, {"peer": distribution, "version": version(distribution)})
    for line in sys.stdin:
        _say(answers, {"refused": first_refused(json.loads(line)["calls"])})


def _own_stdout() -> TextIO:
    """Standard output for answers alone: what the peer prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def _say(answers: TextIO, what: dict[str, Any]) -> None:
    answers.write(json.dumps(what) + "\n")
    answers.flush()

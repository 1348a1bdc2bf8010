"""Many processes that spend from one budget at once, some of which are killed while they hold money."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from spanfuse.ledger import Amounts, Ledger, Refused
from tests.client.waiting import wait_until

MAX_NANO = 3_000_000
"""Largest estimate of a call."""


class Raced(NamedTuple):
    """What the processes say that they did."""

    settled: int
    """Nano-dollars."""
    calls: Counter[str]
    """`settled`, `released`, `refused`, and `holds`: killed while it held."""


def race(
    make: Callable[[], Ledger], log: Path, *, processes: int, calls: int, victims: int = 0, hold_s: float = 600
) -> Raced:
    """Let processes spend from the budget of user `u`; the estimate of each call is what it takes.

    Args:
        make: opens the ledger, in each process.
        log: a file that does not exist.
        victims: so many reserve after a quarter of their calls and never settle; they are killed once all hold.
    """
    out = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    pids = [_forked(partial(_spend, make, out, n, calls, hold_s, n < victims)) for n in range(processes)]
    try:
        if victims:
            wait_until(lambda: _read(log).calls["holds"] == victims, 60, "the victims hold")
            for pid in pids[:victims]:
                os.kill(pid, signal.SIGKILL)
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    finally:
        os.close(out)
    assert codes == [-signal.SIGKILL] * victims + [0] * (processes - victims)
    return _read(log)


def _forked(child: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            child()
            os._exit(0)
        finally:
            os._exit(1)
    return pid


def _spend(make: Callable[[], Ledger], out: int, seed: int, calls: int, hold_s: float, dies: bool) -> None:
    ledger, chance = make(), random.Random(seed)
    for n in range(calls):
        call, nano = f"{seed}-{n}", chance.randint(1, MAX_NANO)
        try:
            hold = ledger.reserve(call, {"user": "u"}, Amounts(nano), hold_s)
        except Refused:
            os.write(out, b"refused 0\n")
            continue
        if dies and n >= calls // 4:
            os.write(out, b"holds 0\n")
            signal.pause()
        if n % 10 == 9:
            ledger.release(call)
            os.write(out, b"released 0\n")
        else:
            ledger.settle(hold, Amounts(nano))
            os.write(out, b"settled %d\n" % nano)


def _read(log: Path) -> Raced:
    settled, calls = 0, Counter[str]()
    for line in log.read_text().splitlines():
        word, nano = line.split(" ")
        calls[word] += 1
        settled += int(nano)
    return Raced(settled, calls)

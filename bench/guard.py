"""What a check costs the caller, by what it finds, beside an empty function call; and what importing the client costs."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
import timeit
from collections.abc import Callable

from bench.report import Figure
from spanfuse import Blocked, Guard, session
from spanfuse.testing import MemorySubscriber, block, nudge
from spanfuse_schemas import LoopPrint

_CALLS = 100_000
_KNOWN = 10_000
_MESSAGES = [
    {"role": "system", "content": "You are a helpful assistant. " * 20},
    {"role": "user", "content": "Find the cause of the failing test. " * 20},
    *[{"role": role, "content": f"step {i} " * 50} for i in range(20) for role in ("assistant", "user")],
]


def _nothing() -> None:
    """The baseline."""


def _ns(check: Callable[[], object], calls: int = _CALLS) -> float:
    # The best of many short runs: other work on the machine only ever adds.
    return min(timeit.repeat(check, number=calls // 20, repeat=20)) / (calls // 20) * 1e9


def _refused(guard: Guard) -> Callable[[], object]:
    def ask() -> None:
        try:
            guard.check(session="stopped", agent="a")
        except Blocked:
            return

    return ask


def _guard(mode: str = "enforce") -> Guard:
    """A Guard that knows 10,000 blocks of other sessions."""
    known = [block(f"session:{i}") for i in range(_KNOWN)]
    stopped = [
        block("session:stopped"),
        nudge("session:nudged"),
        block("session:loop", loop=[LoopPrint(canon="0" * 16)]),
    ]
    guard = Guard(MemorySubscriber(*known, *stopped), mode=mode)  # type: ignore[arg-type]
    guard.start()
    return guard


def _paths() -> dict[str, float]:
    guard, observing = _guard(), _guard("observe")
    check, watch = guard.check, observing.check
    found = {
        "allow, session and agent given": _ns(lambda: check(session="s", agent="a")),
        "allow, six scopes given": _ns(lambda: check(session="s", agent="a", user="u", team="t", trace="f" * 32)),
        "observe, a block applies": _ns(lambda: watch(session="stopped", agent="a"), _CALLS // 5),
        "nudge": _ns(lambda: check(session="nudged"), _CALLS // 5),
        "block, raised and caught": _ns(_refused(guard), _CALLS // 5),
        "loop open, 42 messages shown, left": _ns(lambda: check(session="loop", messages=_MESSAGES), 500),
    }
    with session("s", agent="a", user="u", team="t"):
        found["allow, inside `with session(…)` of four names"] = _ns(check)
    return found


def _p99_ns() -> float:
    """The 99th percentile of single checks."""
    check, clock, times = _guard().check, time.perf_counter_ns, []
    for _ in range(_CALLS):
        begin = clock()
        check(session="s", agent="a")
        times.append(clock() - begin)
    return statistics.quantiles(times, n=100)[98]


def _loop_lag_ms() -> float:
    """Longest time that an event loop waits for a task which makes 10,000 checks against 100,000 known keys."""
    guard = Guard(MemorySubscriber(*(block(f"session:{i}") for i in range(100_000))))
    guard.start()

    async def asks() -> None:
        for i in range(10_000):
            guard.check(session=f"s{i}", agent="a")
            if i % 100 == 0:
                await asyncio.sleep(0)

    async def watches() -> float:
        task, longest = asyncio.create_task(asks()), 0.0
        while not task.done():
            begin = time.perf_counter()
            await asyncio.sleep(0)
            longest = max(longest, time.perf_counter() - begin)
        return longest * 1e3

    return asyncio.run(watches())


def _import_ms(module: str) -> float:
    """Time to import a module in a fresh interpreter, the best of seven."""
    code = f"import time; t = time.perf_counter(); import {module}; print((time.perf_counter() - t) * 1e3)"
    runs = (subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(7))
    return min(float(run.stdout) for run in runs)


def run() -> list[Figure]:
    """All figures of the client."""
    empty = _ns(_nothing)
    figures = [
        Figure(f"check: {name}", ns, "ns", empty, "an empty call", "< 1000" if name.startswith("allow") else "")
        for name, ns in _paths().items()
    ]
    return [
        *figures,
        Figure("check: allow, 99th percentile of single calls", _p99_ns(), "ns", aim="< 50000"),
        Figure("event loop lag, 100 checks a turn, 100,000 known keys", _loop_lag_ms(), "ms", aim="< 1"),
        Figure("import spanfuse", _import_ms("spanfuse"), "ms", _import_ms("pydantic"), "import pydantic", "< 100"),
    ]

"""What a strict budget costs a call: reserve before it and settle after it, beside a bare round trip to the same Redis."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis

from bench.report import Figure
from spanfuse.ledger import Amounts, Definitions, Hold, Ledger, RedisLedger, SqliteLedger
from spanfuse_schemas.budget import Budget
from tests.services.choose import start_redis

_CALLS = 4_000
_PROCESSES = 8
_AMOUNTS = Amounts(10_000_000, 1_000)
_WHO = {"session": "s", "user": "u", "team": "t"}
_SCOPES = ("user", "team", "session")


def _defined(ledger: Ledger, budgets: int) -> Ledger:
    ledger.define(
        Definitions(
            budgets=tuple(
                Budget(name=scope, scope=scope, limit_usd=1e8, period="daily", strength="strict")
                for scope in _SCOPES[:budgets]
            )
        )
    )
    return ledger


class _Times:
    """Of several things that are done in turn, so that other work on the machine hits all of them alike; µs."""

    def __init__(self, **work: Callable[[int], object]) -> None:
        self._taken: dict[str, list[float]] = {name: [] for name in work}
        for n in range(_CALLS):
            for name, step in work.items():
                begin = time.perf_counter()
                step(n)
                self._taken[name].append((time.perf_counter() - begin) * 1e6)

    def of(self, *names: str) -> tuple[float, float]:
        """Median and 99th percentile of some of them together."""
        sums = [sum(times) for times in zip(*(self._taken[name] for name in names), strict=True)]
        return statistics.median(sums), statistics.quantiles(sums, n=100)[98]


def _steps(ledger: Ledger, name: str) -> dict[str, Callable[[int], object]]:
    holds: dict[int, Hold] = {}

    def reserve(n: int) -> None:
        holds[n] = ledger.reserve(f"{name}-{n}", _WHO, _AMOUNTS)

    return {"reserve": reserve, "settle": lambda n: ledger.settle(holds.pop(n), _AMOUNTS)}


def _rate(work: Callable[[int], object]) -> float:
    """Times per second that processes together do something."""
    pids, begin = [], time.perf_counter()
    for process in range(_PROCESSES):
        pid = os.fork()
        if pid == 0:
            try:
                for n in range(_CALLS // _PROCESSES):
                    work(process * _CALLS + n)
            finally:
                os._exit(0)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)
    return _CALLS // _PROCESSES * _PROCESSES / (time.perf_counter() - begin)


def _both(ledger: Ledger, name: str) -> Callable[[int], object]:
    steps = _steps(ledger, name)

    def call(n: int) -> None:
        steps["reserve"](n)
        steps["settle"](n)

    return call


def _said(budgets: int) -> str:
    return f"{budgets} budget{'s' * (budgets > 1)}"


def _redis(url: str) -> list[Figure]:
    client: Any = redis.Redis.from_url(url, decode_responses=True)
    sha, figures = client.script_load("return 'ok'"), []

    def bare(n: int) -> None:
        client.evalsha(sha, 1, "key")

    for budgets in (1, 3):
        ledger = _defined(RedisLedger(url, f"bench-{budgets}", timeout_s=10), budgets)
        times = _Times(bare=bare, again=bare, **_steps(ledger, "p"))
        one, two = times.of("bare"), times.of("bare", "again")
        for names, base, versus in (
            (("reserve",), one, "a bare EVALSHA"),
            (("settle",), one, "a bare EVALSHA"),
            (("reserve", "settle"), two, "two of them"),
        ):
            for found, beside, which in zip(times.of(*names), base, ("p50", "p99"), strict=True):
                name, aim = f"Redis: {' and '.join(names)}, {_said(budgets)}, {which}", "< 1.5 x" if base is two else ""
                figures.append(Figure(name, found, "µs", beside, versus, aim))
    ledger = _defined(RedisLedger(url, "bench-1", timeout_s=10), 1)
    steps = 2 * _rate(_both(ledger, "r"))
    name = f"Redis: reserve, settle, …, {_PROCESSES} processes"
    figures.append(Figure(name, steps, "steps/s", _rate(bare), "bare EVALSHAs/s"))
    return figures


def _sqlite(folder: Path) -> list[Figure]:
    figures = []
    for budgets in (1, 3):
        ledger = _defined(SqliteLedger(folder / f"{budgets}.sqlite", timeout_s=60), budgets)
        times = _Times(**_steps(ledger, "p"))
        for names in (("reserve",), ("settle",), ("reserve", "settle")):
            for found, which in zip(times.of(*names), ("p50", "p99"), strict=True):
                figures.append(Figure(f"SQLite: {' and '.join(names)}, {_said(budgets)}, {which}", found, "µs"))
    ledger = _defined(SqliteLedger(folder / "rate.sqlite", timeout_s=60), 1)
    steps = 2 * _rate(_both(ledger, "r"))
    return [*figures, Figure(f"SQLite: reserve, settle, …, {_PROCESSES} processes", steps, "steps/s")]


def run() -> list[Figure]:
    """All figures of the ledger."""
    service = start_redis()
    try:
        with tempfile.TemporaryDirectory() as folder:
            return [*_redis(service.url), *_sqlite(Path(folder))]
    finally:
        service.stop()

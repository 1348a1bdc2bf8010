"""Every ledger, over a clock that the test moves."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spanfuse.ledger import Ledger, RedisLedger, SqliteLedger
from spanfuse.ledger.ledger import StoredLedger
from spanfuse.testing import FakeClock
from tests.services.redis_server import RedisService

_tenants = itertools.count()


def tenant() -> str:
    """One of a test's own."""
    return f"t-{os.getpid()}-{next(_tenants)}"


@pytest.fixture
def clock() -> FakeClock:
    """2027-01-15 08:00 UTC, a Friday."""
    return FakeClock(1_800_000_000.0)


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.integration)])
def make(request: pytest.FixtureRequest, clock: FakeClock, tmp_path: Path) -> Callable[[], StoredLedger]:
    """Opens the books of a test in SQLite, and in a real Redis: each time as another process would."""
    if request.param == "sqlite":
        return lambda: SqliteLedger(tmp_path / "ledger.sqlite", now_ns=clock.now_ns)
    service: RedisService = request.getfixturevalue("redis_service")
    name = tenant()
    return lambda: RedisLedger(service.url, name, timeout_s=5, now_ns=clock.now_ns)


@pytest.fixture
def ledger(make: Callable[[], StoredLedger]) -> Iterator[Ledger]:
    """One of each kind."""
    made = make()
    yield made
    made.close()

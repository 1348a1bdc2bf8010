"""Every ledger, over a clock that the test moves."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from spanfuse.ledger import Ledger, RedisLedger, SqliteLedger
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
def ledger(request: pytest.FixtureRequest, clock: FakeClock, tmp_path: Path) -> Iterator[Ledger]:
    """One in SQLite, and one in a real Redis."""
    made: Ledger
    if request.param == "sqlite":
        made = SqliteLedger(tmp_path / "ledger.sqlite", now_ns=clock.now_ns)
    else:
        service: RedisService = request.getfixturevalue("redis_service")
        made = RedisLedger(service.url, tenant(), timeout_s=5, now_ns=clock.now_ns)
    yield made
    made.close()

"""docs/upgrade.md: the versions that it tells are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

from spanfuse_processor.core.scopes.state import STATE_VERSION as SCOPE
from spanfuse_processor.core.session import STATE_VERSION as SESSION
from spanfuse_processor.hosts.database import SCHEMA
from spanfuse_processor.hosts.stream.pulse import LEAVE_S
from spanfuse_processor.hosts.stream.table import Stored
from spanfuse_schemas import SCHEMA_VERSION

PAGE = (Path(__file__).parents[2] / "docs/upgrade.md").read_text(encoding="utf-8")


def test_the_versions_are_those_of_the_code() -> None:
    told = dict(re.findall(r"^\| ([a-z][^|]+?) \| (\d+) \|", PAGE, re.MULTILINE))
    layout = Stored(0, 0, 0, b"").pack()[0]
    assert list(told.values()) == [str(n) for n in (SESSION, SCOPE, layout, SCHEMA_VERSION, SCHEMA)]


def test_the_time_that_a_worker_takes_to_stop_is_that_of_the_code() -> None:
    assert f"within {10 + LEAVE_S:g} s" in PAGE

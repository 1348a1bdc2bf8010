"""deploy/compose/agents.py, the load of docker-compose.yml: who works finishes, who runs away is stopped by the rule for it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.hosts import embedded

pytestmark = pytest.mark.integration

COMPOSE = Path(__file__).parents[2] / "deploy/compose"


def test_each_agent_ends_as_it_is_meant_to(tmp_path: Path) -> None:
    budgets = yaml.safe_load((COMPOSE / "spanfuse.yaml").read_text())["budgets"]
    with embedded(tmp_path, {"budgets": budgets, "service": {"mode": "enforce"}}) as host:
        environment = {**os.environ, "SPANFUSE_API_URL": host.api, "OTEL_EXPORTER_OTLP_ENDPOINT": host.otlp}
        done = subprocess.run(
            [sys.executable, COMPOSE / "agents.py", "1"], env=environment, capture_output=True, text=True, timeout=90
        )
    assert done.returncode == 0, done.stderr
    ended = dict(re.findall(r"^(\w+)-\d+-1: (.*?) after \d+ calls$", done.stdout, re.MULTILINE))
    assert ended == {
        "researcher": "finished",
        "writer": "finished",
        "repeater": "stopped by repeat.no_progress",
        "failing": "stopped by repeat.no_progress",
        "cycling": "stopped by cycle",
        "spender": "stopped by budget.session",
    }

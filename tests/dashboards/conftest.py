"""Prometheus' own tools, or no test that needs them."""

from __future__ import annotations

import os

import pytest

from tests.services import prometheus
from tests.services.kafka_jars import MissingTool


@pytest.fixture(scope="session")
def tools() -> None:
    """Prometheus and promtool are there. In CI they have to be."""
    try:
        prometheus.program("prometheus")
        prometheus.program("promtool")
    except MissingTool as missing:
        pytest.fail(str(missing)) if os.environ.get("CI") else pytest.skip(str(missing))

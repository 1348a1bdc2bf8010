"""Tests that need a tool which is not there are skipped; `make test-deploy` makes them all."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.services.kafka_jars import MissingTool


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Skip what raises `MissingTool`."""
    try:
        yield
    except MissingTool as missing:
        pytest.skip(str(missing))

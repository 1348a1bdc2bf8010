"""Coroutines run on asyncio."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Where coroutines run."""
    return "asyncio"

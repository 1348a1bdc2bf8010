"""What tests of the API have in common."""

from __future__ import annotations

import pytest

from tests.support.api import Api


@pytest.fixture
def api() -> Api:
    """The API without tokens."""
    return Api()

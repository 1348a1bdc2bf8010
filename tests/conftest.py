"""Fixtures that every test may ask for."""

from __future__ import annotations

import os

from hypothesis import settings

from tests.services.fixtures import kafka, redis_service, secure_kafka

__all__ = ["kafka", "redis_service", "secure_kafka"]

# A busy machine is no failure of a property; and what CI says about a commit must not change by chance.
settings.register_profile("spanfuse", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("spanfuse")

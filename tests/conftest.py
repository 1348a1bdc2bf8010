"""Fixtures that every test may ask for."""

from __future__ import annotations

from tests.services.fixtures import kafka, redis_service, secure_kafka

__all__ = ["kafka", "redis_service", "secure_kafka"]

"""Fixtures that every test may ask for."""

from __future__ import annotations

import os
import signal

from hypothesis import settings

from tests.services.fixtures import kafka, redis_service, secure_kafka

__all__ = ["kafka", "redis_service", "secure_kafka"]

# A busy machine is no failure of a property; and what CI says about a commit must not change by chance.
settings.register_profile("spanfuse", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("spanfuse")

# Started in the background of a shell, this process ignores SIGINT, and so would those that it starts and interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)

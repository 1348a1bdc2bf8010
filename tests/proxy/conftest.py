"""A fake provider, and a proxy in front of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.fake_provider import FakeProvider
from tests.support.proxied import Proxied

CHAT = "/v1/chat/completions"


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with FakeProvider() as started:
        yield started


@pytest.fixture
def proxied(provider: FakeProvider) -> Iterator[Proxied]:
    with Proxied(provider) as started:
        yield started


@pytest.fixture
def client(proxied: Proxied) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=proxied.url, trust_env=False, timeout=30) as made:
        yield made


def body(text: str = "hi", **more: Any) -> dict[str, Any]:
    """A request of a chat."""
    return {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": text}], **more}

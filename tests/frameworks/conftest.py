"""What the tests of all frameworks share. Each folder needs its library, and is left out where that is not installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Final

import pytest

from tests.frameworks.watched import Watched
from tests.support.fake_provider import FakeProvider

LIBRARIES: Final = {
    "anthropic": "anthropic",
    "crewai": "crewai",
    "langchain": "langchain",
    "litellm": "litellm",
    "mcp": "mcp",
    "openai": "openai",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
}
"""Folder → the module that its tests need."""

collect_ignore = [folder for folder, module in LIBRARIES.items() if importlib.util.find_spec(module) is None]


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProvider]:
    """The models of all providers, on a port of their own; clients find it by the environment."""
    with FakeProvider() as fake:
        monkeypatch.setenv("OPENAI_BASE_URL", fake.openai_url)
        monkeypatch.setenv("OPENAI_API_BASE", fake.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", fake.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test")
        yield fake


@pytest.fixture
def local() -> Iterator[Watched]:
    """A Guard that decides in the process, without a server."""
    pytest.importorskip("msgpack", reason="it needs the extra `local`")
    with Watched(local=True) as guard:
        yield guard


@pytest.fixture
def guard() -> Iterator[Watched]:
    """A Guard without a server, and what it was told."""
    with Watched() as guard:
        yield guard

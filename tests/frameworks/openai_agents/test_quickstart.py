"""The quickstart does what it says."""

from __future__ import annotations

from pathlib import Path

from tests.frameworks.scripts import SEARCH
from tests.support.fake_provider import FakeProvider
from tests.support.quickstarts import ran


def test_the_agent_of_the_page_is_stopped_as_it_says(provider: FakeProvider, tmp_path: Path) -> None:
    provider.default = SEARCH
    printed, said = ran("openai-agents", tmp_path, OPENAI_AGENTS_DISABLE_TRACING="1")
    assert printed.startswith(said.rstrip(".\n"))
    assert provider.calls == 3

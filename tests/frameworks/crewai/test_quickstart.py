"""The quickstart does what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frameworks.crewai.replies import CALL, NEWER
from tests.support.fake_provider import FakeProvider
from tests.support.quickstarts import ran


@pytest.mark.skipif(not NEWER, reason="it answers calls that repeat by itself, each time in other words")
def test_the_crew_of_the_page_is_stopped_as_it_says(provider: FakeProvider, tmp_path: Path) -> None:
    provider.default = CALL
    printed, said = ran("crewai", tmp_path, CREWAI_STORAGE_DIR=str(tmp_path))
    assert said.rstrip(".\n") in printed
    assert provider.calls == 3

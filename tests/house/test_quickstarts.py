"""The quickstarts are run: those of frameworks in their environments, the others here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frameworks.scripts import SEARCH
from tests.support.fake_provider import FakeProvider
from tests.support.quickstarts import PAGES, ran

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", sorted(page.stem for page in PAGES.glob("*.md") if page.stem != "README"))
def test_each_page_is_run_by_a_test(page: str) -> None:
    tests = [*(ROOT / "tests" / "frameworks").rglob("test_*.py"), Path(__file__)]
    assert any(f'"{page}"' in test.read_text() for test in tests)


def test_what_no_integration_is_made_for_is_stopped_as_the_page_says(tmp_path: Path) -> None:
    with FakeProvider(default=SEARCH) as provider:
        printed, said = ran("anything-else", tmp_path, OPENAI_BASE_URL=provider.openai_url, OPENAI_API_KEY="sk-test")
    assert printed.startswith(said.rstrip(".\n"))
    assert provider.calls == 3

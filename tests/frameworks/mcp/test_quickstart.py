"""The quickstart does what it says."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.quickstarts import ran


def test_the_session_of_the_page_answers_as_it_says(tmp_path: Path) -> None:
    printed, said = ran("mcp", tmp_path, sys.executable, str(Path(__file__).with_name("server.py")))
    assert printed == said

"""A browser, and the page in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium() -> str:
    """Path of the browser: that of the environment, else one that is installed."""
    found = os.environ.get("SPANFUSE_TEST_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), "")
    if not found:
        why = "the page is tested in a browser: apt-get install chromium, or set SPANFUSE_TEST_CHROMIUM"
        pytest.fail(why) if os.environ.get("CI") else pytest.skip(why)
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    # Of a module, not of the whole run: while it is there, no other event loop can run in this thread.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=chromium(), args=arguments)
        yield launched
        launched.close()

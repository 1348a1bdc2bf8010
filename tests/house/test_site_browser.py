"""The site in a browser: it is searched without a network, follows the system's colours, and fits a phone."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.house.site import build
from tests.page.conftest import browser

__all__ = ["browser"]

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

PAGES = (
    "",
    "start/",
    "concepts/",
    "architecture/",
    "configuration/",
    "runbook/",
    "rules/",
    "rules/drift/",
    "api/",
    "comparison/",
)
SIZES: dict[str, dict[str, Any]] = {
    "desktop": {"viewport": {"width": 1280, "height": 900}},
    "phone": {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True},
}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """As `python -m http.server` serves the folder."""
    folder: Path = build(tmp_path_factory.mktemp("site")).folder
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(params=[("desktop", "light"), ("phone", "dark")], ids="-".join)
def page(request: pytest.FixtureRequest, browser: Browser, address: str) -> Iterator[Page]:
    """Fails at the end if the page asked another host for anything, or a script failed."""
    size, colours = request.param
    context = browser.new_context(color_scheme=colours, **SIZES[size])
    asked, errors = set(), []
    shown = context.new_page()
    shown.on("request", lambda one: asked.add(one.url[: len(address)]))
    shown.on("console", lambda one: errors.append(one.text) if one.type == "error" else None)
    yield shown
    context.close()
    assert (asked, errors) == ({address}, [])


def test_every_kind_of_page_fits_and_has_the_systems_colours(page: Page, address: str) -> None:
    for path in PAGES:
        page.goto(address + path)
        wider = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wider <= 0, path
    dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    assert page.locator("body").get_attribute("data-md-color-scheme") == ("slate" if dark else "default")


def test_a_name_with_dots_is_found(page: Page, address: str) -> None:
    page.goto(address + "?q=repeat.no_progress")  # as if it were typed, when the search is ready
    found = page.locator(".md-search-result__link")
    expect(found.first).to_be_visible(timeout=20_000)
    found.first.click()
    expect(page.locator("article")).to_contain_text("repeat.no_progress")

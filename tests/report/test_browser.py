"""Reports in a browser: without a complaint, on a phone and in print, light and dark, for everybody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.page.conftest import browser  # noqa: F401
from tests.page.test_browser import SIZES, barriers, shot
from tests.page.test_escaping import EVIL
from tests.report.pages import hostile, replayed_page, tuned_page

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    tuned_page(folder)
    replayed_page(folder)
    (folder / "hostile").mkdir()
    replayed_page(folder / "hostile", hostile(EVIL.replace("alert(", "window.hacked=(").rstrip("\0")), compared=False)
    return {
        "tune": folder / "tune.html",
        "replay": folder / "replay.html",
        "hostile": folder / "hostile" / "replay.html",
    }


@pytest.fixture
def look(browser: Browser) -> Iterator[Any]:  # noqa: F811
    """Opens a file; whatever the console tells fails the test."""
    told: list[str] = []
    contexts = []

    def opened(path: Path, **options: Any) -> Any:
        context = browser.new_context(**options)
        contexts.append(context)
        tab = context.new_page()
        tab.on("console", lambda message: told.append(message.text))
        tab.on("pageerror", lambda error: told.append(str(error)))
        tab.on("request", lambda request: told.append(request.url) if request.url != path.as_uri() else None)
        tab.goto(path.as_uri())
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert told == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_a_report_fits_and_has_no_barriers(look: Any, pages: dict[str, Path], size: str, scheme: str) -> None:
    for name, path in pages.items():
        # axe itself is a script, which the page's own policy forbids.
        tab = look(path, **SIZES[size], color_scheme=scheme, bypass_csp=True)
        for details in tab.locator("details").all():
            details.evaluate("(one) => { one.open = true; }")
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} is wider than the window"
        assert barriers(tab) == [], name
        shot(tab, f"report-{name}", size, scheme)


def test_a_report_follows_the_theme_of_who_looks(look: Any, pages: dict[str, Path]) -> None:
    grounds = {
        scheme: look(pages["tune"], color_scheme=scheme).evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    }
    assert grounds["light"] != grounds["dark"]


def test_in_print_a_report_is_light_and_no_table_is_cut(look: Any, pages: dict[str, Path]) -> None:
    tab = look(pages["tune"], color_scheme="dark")
    tab.emulate_media(media="print")
    assert tab.evaluate("getComputedStyle(document.querySelector('h1')).color") == "rgb(21, 24, 29)"
    assert tab.evaluate("getComputedStyle(document.querySelector('.scroll')).overflowX") == "visible"
    assert tab.pdf(format="A4").startswith(b"%PDF")


def test_the_tables_behind_the_pictures_open_without_a_script(look: Any, pages: dict[str, Path]) -> None:
    tab = look(pages["tune"], java_script_enabled=False)
    tab.get_by_text("The frontier, as a table").click()
    expect(tab.get_by_role("region", name="The frontier, as a table").get_by_text("25 of 25")).to_be_visible()


def test_hostile_names_do_nothing(look: Any, pages: dict[str, Path]) -> None:
    tab = look(pages["hostile"], bypass_csp=True)
    assert tab.evaluate("window.hacked") is None
    assert tab.locator("img").count() == 0
    expect(tab.get_by_role("heading", name="onerror").first).to_be_visible()

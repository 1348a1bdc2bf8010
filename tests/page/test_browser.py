"""The page in a browser: fast, live, by keyboard, without scripts, for everybody, and hostile names do nothing."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.page.served import Served, addresses, served
from tests.page.test_escaping import EVIL
from tests.services import node_packages
from tests.support.api import OPERATE, READ, SETTINGS, FakeAlerts
from tests.support.console import NOW_NS, FakeConsole

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

NOW = datetime.fromtimestamp(NOW_NS / 1e9, UTC)
SIZES: dict[str, dict[str, Any]] = {
    "desktop": {"viewport": {"width": 1280, "height": 800}},
    "phone": {
        "viewport": {"width": 390, "height": 844},
        "device_scale_factor": 2,
        "is_mobile": True,
        "has_touch": True,
    },
}
SHOTS = os.environ.get("SPANFUSE_TEST_SCREENSHOTS", "")
"""A folder for pictures of all pages; empty: none are taken."""
KEY = "session:run-00011"
ANSWERS = ("Failed to load resource", "Response Status Error", "htmx:")
"""How the console begins that tells of answers of 4xx, which tests ask for, and of a server that is stopped at the end."""


@pytest.fixture(scope="module")
def fleet() -> Iterator[Served]:
    with served(FakeConsole(300), alerts=FakeAlerts()) as running:
        yield running


@pytest.fixture
def look(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a tab; what its scripts complain of fails the test."""
    wrong: list[str] = []
    contexts: list[BrowserContext] = []

    def opened(**options: Any) -> Page:
        context = browser.new_context(**{"locale": "en-GB", "timezone_id": "Europe/Berlin", **options})
        contexts.append(context)
        tab = context.new_page()
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.on("console", lambda told: wrong.append(told.text) if told.type == "error" else None)
        tab.set_default_timeout(10_000)
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert [told for told in wrong if not told.startswith(ANSWERS)] == []


def live(tab: Page) -> None:
    """It hears of what happens."""
    expect(tab.locator("#link")).to_have_class("link on")


def test_ten_thousand_sessions_are_there_within_two_seconds(look: Callable[..., Page]) -> None:
    with served(FakeConsole(10_000)) as running:
        tab = look()
        tab.goto(running.url)
        for step in ("/ui/sessions", "/ui/sessions?query=run-0999&sort=cost"):
            started = time.monotonic()
            tab.goto(running.url + step, wait_until="load")
            expect(tab.locator("tbody tr").first).to_be_visible()
            assert time.monotonic() - started < 2
        tab.get_by_label("Search").fill("run-00777")
        expect(tab.locator("tbody tr")).to_have_count(1)
        assert "query=run-00777" in tab.url
        tab.get_by_label("Search").fill("")
        tab.get_by_role("link", name="Next page").click()
        expect(tab.locator("tbody tr")).to_have_count(50)


def test_what_happens_shows_without_loading_again(look: Callable[..., Page]) -> None:
    with served(FakeConsole(40)) as running:
        tab = look()
        tab.goto(f"{running.url}/ui/session?id=run-00011")
        live(tab)
        tab.evaluate("window.same = true")
        expect(tab.locator(".head .badge")).to_have_text("open")
        running.do(lambda: asyncio.ensure_future(running.host.reset(KEY, "somebody")))
        expect(tab.locator(".head .badge")).to_have_text("closed", timeout=1000)
        assert tab.evaluate("window.same")
        expect(tab.locator("#heard")).to_have_text("session:run-00011 is closed")


def test_a_breaker_is_reset_through_a_dialog_by_keyboard_alone(look: Callable[..., Page]) -> None:
    with served(FakeConsole(40)) as running:
        tab = look()
        tab.goto(f"{running.url}/ui/breakers")
        live(tab)
        button = tab.get_by_role("button", name=f"Reset {KEY}")
        button.focus()
        tab.keyboard.press("Space")
        dialog = tab.get_by_role("dialog", name="Reset this breaker?")
        expect(dialog).to_be_visible()
        tab.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        expect(button).to_be_focused()
        tab.keyboard.press("Enter")
        expect(dialog.get_by_label("Your name")).to_be_focused()
        tab.keyboard.type("dana")
        tab.keyboard.press("Enter")
        expect(dialog.get_by_label("Reason")).to_be_focused()
        assert running.host.resets == [], "a reason is needed"
        tab.keyboard.type("a false alarm")
        tab.keyboard.press("Enter")
        expect(button).to_have_count(0, timeout=1000)
        expect(dialog).to_be_hidden()
        expect(tab.locator("#said")).to_have_text(f"{KEY} is closed: its next call is let through.")
        assert running.host.resets == [(KEY, "dana: a false alarm")]


def test_what_goes_wrong_with_an_order_is_said_in_the_dialog(look: Callable[..., Page]) -> None:
    with served(FakeConsole(40)) as running:
        tab = look()
        tab.goto(f"{running.url}/ui/budgets?query=user:u-12")
        tab.get_by_role("button", name="Extend user/daily of user:u-12").click()
        dialog = tab.get_by_role("dialog")
        dialog.get_by_label("Reason").fill("a demo")
        dialog.get_by_label("More, USD").fill("some")
        with tab.expect_response("**/ui/extend") as refused:
            dialog.get_by_role("button", name="Extend").click()
        assert refused.value.status == 400
        expect(dialog.get_by_role("alert")).to_have_text("the amount has to be a number")
        dialog.get_by_label("More, USD").fill("2.50")
        dialog.get_by_label("Until").select_option("in an hour")
        dialog.get_by_role("button", name="Extend").click()
        expect(dialog).to_be_hidden()
        (order,) = running.host.orders
        assert (order.amount, order.reason) == (2_500_000_000, "a demo")


def test_the_focus_stays_when_a_part_is_drawn_anew(look: Callable[..., Page], fleet: Served) -> None:
    tab = look()
    tab.goto(f"{fleet.url}/ui/sessions")
    live(tab)
    link = tab.get_by_role("link", name="run-00005", exact=True)
    link.focus()
    with tab.expect_response("**/ui/sessions"):
        fleet.do(lambda: fleet.host.log.publish("sessions", b'{"changed": ["run-00001"], "more": false}'))
    expect(link).to_be_focused()


def test_without_scripts_all_can_be_done(look: Callable[..., Page]) -> None:
    with served(FakeConsole(40)) as running:
        tab = look(java_script_enabled=False)
        tab.goto(running.url)
        tab.get_by_role("link", name="Breakers").click()
        tab.get_by_role("button", name=f"Reset {KEY}").click()
        tab.get_by_label("Reason").fill("no scripts here")
        tab.get_by_role("button", name="Reset").last.click()
        expect(tab.get_by_role("heading", name="Breakers")).to_be_visible()
        assert running.host.resets == [(KEY, "no scripts here")]


def test_a_login_leads_on_to_what_was_asked_for_and_shows_what_may_be_done(look: Callable[..., Page]) -> None:
    with served(FakeConsole(40), SETTINGS) as running:
        for token, offered in ((READ, 0), (OPERATE, 1)):
            tab = look()
            answer = tab.goto(f"{running.url}/ui/session?id=run-00011")
            assert answer is not None
            assert answer.status == 401
            tab.get_by_label("Token").fill(token)
            tab.get_by_role("button", name="Log in").click()
            expect(tab.get_by_role("heading", name="run-00011")).to_be_visible()
            expect(tab.get_by_role("button", name="Reset this session")).to_have_count(offered)
            live(tab)
            tab.get_by_role("button", name="Log out").click()
            expect(tab.get_by_label("Token")).to_be_visible()


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_the_theme_that_is_chosen_stays(look: Callable[..., Page], fleet: Served, theme: str) -> None:
    tab = look(color_scheme="light" if theme == "Dark" else "dark")
    tab.goto(fleet.url)
    before = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    button = tab.get_by_role("button", name="Theme")
    while theme not in str(button.text_content()):
        button.click()
    tab.goto(f"{fleet.url}/ui/breakers")
    assert theme in str(button.text_content())
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") != before


def test_times_are_those_of_who_looks(look: Callable[..., Page], fleet: Served) -> None:
    tab = look(timezone_id="America/New_York", locale="en-US")
    tab.clock.set_fixed_time(NOW)
    tab.goto(f"{fleet.url}/ui/budgets?query=user:u-12")
    expect(tab.locator(".account time").first).to_have_text("7:00 PM (in 13h)")


def test_hostile_names_do_nothing(look: Callable[..., Page]) -> None:
    with served(
        FakeConsole(12, name=EVIL.replace("alert(", "window.hacked=(").rstrip("\0")), alerts=FakeAlerts()
    ) as running:
        tab = look()
        for where in addresses(running.host):
            tab.goto(running.url + where)
            assert tab.evaluate("window.hacked") is None, where
            assert tab.locator("img").count() == 0
        tab.goto(f"{running.url}/ui/breakers")
        live(tab)
        tab.get_by_role("button", name="Reset").first.click()
        tab.get_by_label("Reason").fill("<img src=x onerror=window.hacked=1>")
        tab.get_by_role("dialog").get_by_role("button", name="Reset").click()
        expect(tab.get_by_role("dialog")).to_be_hidden()
        expect(tab.locator("#said")).to_contain_text("is closed")
        assert tab.evaluate("window.hacked") is None
        assert tab.locator("img").count() == 0


@pytest.mark.parametrize(("size", "scheme"), [("desktop", "light"), ("phone", "dark")])
def test_axe_finds_no_barrier_on_any_page(look: Callable[..., Page], fleet: Served, size: str, scheme: str) -> None:
    tab = look(**SIZES[size], color_scheme=scheme, reduced_motion="reduce")
    tab.clock.set_fixed_time(NOW)
    for where in [
        *addresses(fleet.host),
        "/ui/session?id=run-00011",
        f"/ui/explain?key={KEY}",
        "/ui/sessions?query=none",
    ]:
        tab.goto(fleet.url + where)
        live(tab)
        for details in tab.locator("details").all():
            details.evaluate("(one) => { one.open = true; }")
        assert barriers(tab) == [], where
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{where} is wider than the window"
        shot(tab, where, size, scheme)
    tab.goto(f"{fleet.url}/ui/breakers")
    live(tab)
    tab.get_by_role("button", name=f"Reset {KEY}").click()
    expect(tab.get_by_role("dialog")).to_be_visible()
    assert barriers(tab) == []
    shot(tab, "dialog", size, scheme)


def test_axe_finds_no_barrier_where_one_logs_in(look: Callable[..., Page]) -> None:
    with served(FakeConsole(1), SETTINGS) as running:
        tab = look()
        tab.goto(f"{running.url}/?login=refused")
        assert barriers(tab) == []
        shot(tab, "login", "desktop", "light")


def barriers(tab: Page) -> list[Any]:
    """What axe has to object, by rule and element."""
    tab.evaluate((node_packages.modules() / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
    found = tab.evaluate("axe.run()")
    return [(one["id"], [node["html"][:200] for node in one["nodes"]][:3]) for one in found["violations"]]


def shot(tab: Page, where: str, size: str, scheme: str) -> None:
    """A picture, for people."""
    if SHOTS:
        name = "".join(c if c.isalnum() else "-" for c in where).strip("-") or "overview"
        tab.screenshot(path=Path(SHOTS) / f"{name}-{size}-{scheme}.png")

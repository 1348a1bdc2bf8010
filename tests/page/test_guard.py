"""What is clicked in the browser reaches a Guard of a running `spanfuse up` within a second."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from spanfuse import Guard
from spanfuse.testing import is_blocked
from tests.client.waiting import wait_until
from tests.support.hosts import Deployment, embedded
from tests.support.recorded import START_NS, attribute, chat_span, request

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

EACH_USD = 1000 * 150 / 1e9
"""What a call of `spend` costs."""
CONFIG: dict[str, Any] = {
    "service": {"mode": "enforce"},
    "budgets": {"user/daily": {"limit_usd": 2 * EACH_USD, "period": "daily"}},
}


@pytest.fixture(scope="module")
def fuse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with embedded(tmp_path_factory.mktemp("fuse"), CONFIG) as running:
        yield running


@pytest.fixture
def guard(fuse: Deployment) -> Iterator[Guard]:
    with Guard(fuse.guard) as following:
        assert following.wait_ready(20)
        yield following


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    yield context.new_page()
    context.close()


def now() -> float:
    """The time, as recordings have it, some seconds ago."""
    return (time.time_ns() - START_NS) / 1e9 - 10


def send(fuse: Deployment, *spans: dict[str, Any]) -> None:
    sent = httpx.post(
        f"{fuse.otlp}/v1/traces",
        content=json.dumps(request(*spans)).encode(),
        headers={"Content-Type": "application/json"},
        timeout=20,
    )
    assert sent.status_code == 200


def run_away(fuse: Deployment, session: str) -> None:
    """Ask the same again and again."""
    asked = [("user", "What is the weather in Tokyo?")]
    send(fuse, *(chat_span(n, asked, session=session, at=now() + n) for n in range(4)))


def spend(fuse: Deployment, user: str) -> None:
    """All that this user may spend."""
    for n in range(2):
        span = chat_span(n, [("user", f"Question {n}")], session=f"of-{user}", tokens=(1000, 0), at=now() + n)
        span["attributes"].append(attribute("user.id", user))
        send(fuse, span)


def within_a_second(tab: Page, guard: Guard, **who: str) -> None:
    """Click what is asked for in the dialog, and the Guard lets the next call pass."""
    button = tab.get_by_role("dialog").get_by_role("button").last
    started = time.monotonic()
    button.click()
    wait_until(lambda: is_blocked(guard, **who) is None)
    assert time.monotonic() - started < 1


def test_a_reset(fuse: Deployment, guard: Guard, tab: Page) -> None:
    tab.goto(f"{fuse.api}/ui/breakers")
    expect(tab.locator("#link")).to_have_class("link on")
    run_away(fuse, "tokyo")
    wait_until(lambda: is_blocked(guard, session="tokyo"))
    reset = tab.get_by_role("button", name="Reset session:tokyo")
    expect(reset).to_be_visible(timeout=1500)
    reset.click()
    tab.get_by_role("dialog").get_by_label("Your name").fill("dana")
    tab.get_by_role("dialog").get_by_label("Reason").fill("a false alarm")
    within_a_second(tab, guard, session="tokyo")
    expect(reset).to_have_count(0)
    tab.goto(f"{fuse.api}/ui/session?id=tokyo")
    expect(tab.get_by_text("Reset by dana: a false alarm.")).to_be_visible()
    expect(tab.locator(".strip .step")).to_have_count(4)


def test_an_extension(fuse: Deployment, guard: Guard, tab: Page) -> None:
    spend(fuse, "u-7")
    wait_until(lambda: is_blocked(guard, user="u-7"))
    tab.goto(f"{fuse.api}/ui/breakers?scope=user")
    tab.get_by_role("button", name="Extend the budget of user:u-7").click()
    tab.get_by_role("dialog").get_by_label("More, USD").fill("1")
    tab.get_by_role("dialog").get_by_label("Reason").fill("a demo")
    within_a_second(tab, guard, user="u-7")
    tab.goto(f"{fuse.api}/ui/budgets?query=user:u-7")
    expect(tab.locator(".account")).to_contain_text("of $1.00")


def test_ten_thousand_sessions_are_listed_and_searched_within_two_seconds(fuse: Deployment, tab: Page) -> None:
    for part in range(10):
        numbers = range(1000 * part, 1000 * (part + 1))
        spans = [chat_span(n, [("user", f"Question {n}")], session=f"{n:05d}-of-many", at=now()) for n in numbers]
        send(fuse, *spans)
    for asked, found in (("", 50), ("?query=07777-of&sort=cost", 1)):
        started = time.monotonic()
        tab.goto(f"{fuse.api}/ui/sessions{asked}", wait_until="load")
        expect(tab.locator("tbody tr")).to_have_count(found)
        assert time.monotonic() - started < 2


def test_every_page_stands_over_a_real_host(fuse: Deployment, tab: Page) -> None:
    run_away(fuse, "odd / name?&#")
    wait_until(lambda: "odd" in httpx.get(f"{fuse.api}/ui/sessions").text)
    tab.goto(fuse.api)
    for name in ("Sessions", "Breakers", "Detections", "Budgets", "Agents", "Models", "Alerts", "Explain", "Overview"):
        tab.get_by_role("navigation", name="Parts").get_by_role("link", name=name).click()
        expect(tab.get_by_role("heading", level=1)).to_have_text(name)
    tab.get_by_role("link", name="odd / name?&#").first.click()
    expect(tab.get_by_role("heading", level=1)).to_have_text("odd / name?&#")
    tab.get_by_role("link", name="Explain", exact=True).last.click()
    expect(tab.get_by_text("It tripped")).to_be_visible()

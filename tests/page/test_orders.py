"""Who may looks at it, releases and extends; and nobody else."""

from __future__ import annotations

from typing import Any

import pytest

from spanfuse_processor.api.access import COOKIE
from tests.page.served import Pages
from tests.support.api import OPERATE, READ, SETTINGS, FakeAlerts
from tests.support.console import FakeConsole
from tests.support.loops import in_loop

HERE = {"Origin": "http://localhost"}
SCRIPT = HERE | {"HX-Request": "true"}
KEY = "session:run-00011"
RESET = {"key": KEY, "reason": "a false alarm"}
EXTEND = {"scope": "user:u-12", "budget": "user/daily", "amount": "2.50", "reason": "a demo", "id": "o-1"}


async def logged_in(pages: Pages, token: str) -> dict[str, str]:
    answer = await pages.send("POST", "/login", data={"token": token}, headers=HERE)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    return {"Cookie": f"{COOKIE}={answer.cookies[COOKIE]}"}


@in_loop
async def test_who_is_not_logged_in_sees_the_form_and_nothing_else() -> None:
    pages = Pages(settings=SETTINGS)
    for where in ("/", "/ui/sessions", "/ui/session?id=run-00011", "/ui/reset?key=agent:x"):
        answer = await pages.send("GET", where)
        assert answer.status_code == 401
        assert 'name="token"' in answer.text
        assert "run-000" not in answer.text
    script = await pages.send("GET", "/ui/sessions", headers=SCRIPT)
    assert (script.status_code, script.headers["hx-refresh"]) == (401, "true")
    refused = await pages.send("POST", "/login", data={"token": "no such token at all"}, headers=HERE)
    again = await pages.send("GET", refused.headers["location"])
    assert "This token is not known" in again.text


@in_loop
async def test_who_may_only_read_is_offered_nothing_else_and_refused_it() -> None:
    pages = Pages(settings=SETTINGS, alerts=FakeAlerts())
    cookie = await logged_in(pages, READ)
    for where in (
        "/",
        "/ui/breakers",
        "/ui/budgets",
        "/ui/session?id=run-00011",
        "/ui/alerts",
        f"/ui/explain?key={KEY}",
    ):
        found = await pages.get(where, headers=cookie)
        assert not [link for link in found.links if link.startswith(("/ui/reset", "/ui/extend"))], where
        assert not [a for a in found.all("button") if a.get("name") == "do"]
        assert "guard" in found.text
    for path, fields in (("/ui/reset", RESET), ("/ui/extend", EXTEND), ("/ui/alerts", {"id": "a0", "do": "ack"})):
        answer = await pages.send("POST", path, data=fields, headers=cookie | SCRIPT)
        assert (answer.status_code, answer.text) == (403, "this needs the role operate; guard has read")
    assert (await pages.send("GET", f"/ui/reset?key={KEY}", headers=cookie)).status_code == 403
    assert (pages.host.resets, pages.host.orders) == ([], [])


@in_loop
async def test_who_operates_resets_with_name_and_reason() -> None:
    pages = Pages(settings=SETTINGS)
    cookie = await logged_in(pages, OPERATE)
    assert KEY.partition(":")[2] in (await pages.get(f"/ui/reset?key={KEY}", headers=cookie)).text
    answer = await pages.send("POST", "/ui/reset", data=RESET, headers=cookie | SCRIPT)
    assert (answer.status_code, answer.text) == (200, f"{KEY} is closed: its next call is let through.")
    assert pages.host.resets == [(KEY, "a false alarm (oncall)")]
    assert KEY not in pages.host.standing


@in_loop
async def test_a_browser_without_scripts_is_led_on() -> None:
    pages = Pages()
    answer = await pages.send("POST", "/ui/reset", data=RESET | {"actor": "dana"}, headers=HERE)
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui/breakers")
    assert pages.host.resets == [(KEY, "dana: a false alarm")]
    more = await pages.send("POST", "/ui/extend", data=EXTEND, headers=HERE)
    assert more.headers["location"] == "/ui/budgets?query=user%3Au-12"


@in_loop
async def test_a_budget_is_extended_by_dollars_with_a_reason_and_once() -> None:
    pages = Pages()
    assert "u-12" in (await pages.get("/ui/extend?scope=user:u-12&budget=user/daily")).text
    answer = await pages.send("POST", "/ui/extend", data=EXTEND | {"actor": "dana", "until": "1"}, headers=SCRIPT)
    assert (answer.status_code, answer.text) == (200, "user/daily of user:u-12 is extended.")
    (order,) = pages.host.orders
    told = (order.id, order.action, order.scope, order.amount, order.reason, order.actor)
    assert told == ("o-1", "extend", "user:u-12", 2_500_000_000, "a demo", "dana")
    assert order.expires_at_ns is not None
    assert order.expires_at_ns - order.at_ns == 3600 * 10**9


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"amount": "much"}, 400, "the amount has to be a number"),
        ({"amount": "nan"}, 400, "the amount has to be a number"),
        ({"amount": "1e15"}, 400, "the amount or the reason is too large"),
        ({"amount": "-1"}, 400, "the amount has to be more than nothing"),
        ({"amount": "0"}, 400, "the amount has to be more than nothing"),
        ({"reason": "x" * 1001}, 400, "the amount or the reason is too large"),
        ({"budget": "other"}, 404, "no such budget holds for it"),
        ({"scope": "x"}, 400, "write a key as session:ID, agent:NAME, user:ID, team:NAME or global:*"),
    ],
)
def test_an_order_that_makes_no_sense_is_said_and_not_carried_out(
    change: dict[str, str], status: int, said: str
) -> None:
    @in_loop
    async def run() -> None:
        pages = Pages()
        answer = await pages.send("POST", "/ui/extend", data=EXTEND | change, headers=SCRIPT)
        assert (answer.status_code, answer.text) == (status, said)
        assert pages.host.orders == []

    run()


@pytest.mark.parametrize("headers", [{}, {"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}])
def test_a_page_of_another_site_gives_no_orders(headers: dict[str, str]) -> None:
    @in_loop
    async def run() -> None:
        pages = Pages()
        for path, fields in (("/ui/reset", RESET), ("/ui/extend", EXTEND)):
            assert (await pages.send("POST", path, data=fields, headers=headers)).status_code == 403
        assert (pages.host.resets, pages.host.orders) == ([], [])

    run()


@in_loop
async def test_what_cannot_be_read_as_a_form_is_refused() -> None:
    for body in (b"\xff\xfe", b"&".join(b"a%d=1" % n for n in range(50))):
        answer = await Pages().send("POST", "/ui/reset", content=body, headers=SCRIPT)
        assert (answer.status_code, answer.text) == (400, "the form cannot be read")
    nobody: dict[str, Any] = {"key": "session:nobody"}
    assert (await Pages(FakeConsole(1)).send("POST", "/ui/reset", data=nobody, headers=SCRIPT)).status_code == 404


@in_loop
async def test_alerts_are_taken_on_and_snoozed() -> None:
    alerts = FakeAlerts()
    pages = Pages(alerts=alerts)
    for do in ("ack", "1h"):
        assert (await pages.send("POST", "/ui/alerts", data={"id": "a1", "do": do}, headers=SCRIPT)).status_code == 200
    assert alerts.known["a1"].acknowledged_by == "the page"
    assert alerts.known["a1"].snoozed_until_ns
    for fields, status in (({"id": "none", "do": "ack"}, 404), ({"id": "a1", "do": "cheer"}, 400)):
        assert (await pages.send("POST", "/ui/alerts", data=fields, headers=SCRIPT)).status_code == status
    assert (await Pages().send("POST", "/ui/alerts", data={"id": "a1"}, headers=SCRIPT)).status_code == 409

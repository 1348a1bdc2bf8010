"""Whatever agents, users and operators call themselves is text, in every field that is shown."""

from __future__ import annotations

import re

import pytest

from spanfuse_processor.page.formats import address
from spanfuse_schemas import Decision
from tests.page.document import Document
from tests.page.served import Pages, addresses
from tests.support.api import FakeAlerts
from tests.support.console import NOW_NS, FakeConsole
from tests.support.loops import in_loop

EVIL = (
    "\"'><img src=x onerror=alert(1)><script>alert(2)</script></title></textarea>"
    "{{7*7}}${7*7}javascript:alert(3)//\u202e\x00"
)


def hostile() -> Pages:
    """All that is shown is called so."""
    host, alerts = FakeConsole(12, name=EVIL), FakeAlerts(2)
    for id, alert in alerts.known.items():
        names = ("rule", "title", "message", "agent", "user", "team", "session", "acknowledged_by", "release")
        alerts.known[id] = alert.model_copy(
            update=dict.fromkeys(names, EVIL)
            | {"key": f"session:{EVIL}", "receivers": (EVIL,), "snoozed_until_ns": 2**62}
        )
    for scope in ("agent", "user", "team", "odd"):
        host.standing[f"{scope}:{EVIL}"] = Decision(
            key=f"{scope}:{EVIL}",
            state="open",
            action="block",
            rule=f"budget.{EVIL}",
            message=EVIL,
            issued_at_ns=NOW_NS,
        )
    return Pages(host, alerts=alerts)


def harmless(html: str) -> None:
    """There is nothing in it but what the templates have."""
    found = Document(html)
    assert not found.all("img")
    assert all(a["src"].startswith("/ui/static/") for a in found.all("script"))
    for tag, attributes in found.elements:
        assert not [name for name in attributes if name.startswith("on")], tag
        for name in ("href", "src", "action", "hx-get", "hx-post"):
            assert attributes.get(name, "/").startswith(("/", "#")), (tag, attributes)
            assert not attributes.get(name, "").startswith("//")
    assert "7*7" not in html.replace("{{7*7}}${7*7}", ""), "it is shown as it is"
    assert not re.search(r"<(?:img|script>)", html)


@in_loop
async def test_no_field_of_any_page_is_more_than_text() -> None:
    pages = hostile()
    for where in addresses(pages.host):
        answer = await pages.send("GET", where)
        assert answer.status_code == 200, where
        harmless(answer.text)
    for scope in ("agent", "user", "team", "odd"):
        for path in ("/ui/explain", "/ui/reset"):
            harmless((await pages.send("GET", address(path, key=f"{scope}:{EVIL}"))).text)
    shown = await pages.get("/ui/alerts")
    assert shown.text.count(EVIL.replace("\x00", "\ufffd")) + shown.text.count(EVIL) > 10


@pytest.mark.parametrize(
    "where",
    [
        "sessions?query",
        "sessions?agent",
        "breakers?query",
        "detections?rule",
        "budgets?query",
        "explain?key",
        "session?id",
    ],
)
def test_what_is_asked_for_comes_back_as_text(where: str) -> None:
    @in_loop
    async def run() -> None:
        path, _, name = where.partition("?")
        for asked in (EVIL, f"session:{EVIL}"):
            answer = await Pages().send("GET", address(f"/ui/{path}", **{name: asked}))
            assert answer.status_code in (200, 400, 404)
            harmless(answer.text)

    run()


@in_loop
async def test_what_is_ordered_comes_back_as_text() -> None:
    pages = hostile()
    session = next(iter(pages.host.rows))
    here = {"Origin": "http://localhost"}
    fields = {"key": f"session:{session}", "actor": EVIL, "reason": EVIL}
    answer = await pages.send("POST", "/ui/reset", data=fields, headers=here | {"HX-Request": "true"})
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.headers["x-content-type-options"] == "nosniff"
    led = await pages.send("POST", "/ui/reset", data=fields, headers=here)
    assert led.headers["location"] == "/ui/breakers"
    unknown = await pages.send("POST", "/ui/reset", data={"key": f"agent:{EVIL}x"}, headers=here)
    assert unknown.status_code == 404
    harmless(unknown.text)

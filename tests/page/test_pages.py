"""Each page shows what the host has, leads where it says, and says in words what fails."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from urllib.parse import urljoin

import pytest

from spanfuse_processor import page
from spanfuse_processor.page.formats import address
from tests.page.document import Document
from tests.page.served import LISTS, Pages, addresses
from tests.support.api import FakeAlerts
from tests.support.console import FakeConsole
from tests.support.loops import in_loop

FOLDER = Path(page.__file__).parent
ODD = "a/../b?c=d&e#f%2F é☃ ."
"""A name that no address holds as it is."""


@pytest.mark.parametrize("sessions", [40, 0], ids=["sessions", "empty"])
@pytest.mark.parametrize("with_alerts", [True, False], ids=["alerts", "none"])
def test_each_page_stands_with_sessions_and_without(sessions: int, with_alerts: bool) -> None:
    @in_loop
    async def run() -> None:
        pages = Pages(FakeConsole(sessions), alerts=FakeAlerts() if with_alerts else None)
        for where in addresses(pages.host):
            found = await pages.get(where)
            assert found.all("html", lang="en"), where
            assert len(found.all("main")) == 1, where
            assert len(set(found.ids)) == len(found.ids), (where, [i for i in found.ids if found.ids.count(i) > 1])

    run()


@pytest.mark.parametrize("name", [None, ODD], ids=["plain", "odd"])
def test_every_link_leads_to_a_page(name: str | None) -> None:
    @in_loop
    async def run() -> None:
        pages = Pages(FakeConsole(15, name=name), alerts=None if name else FakeAlerts(2))
        seen, waiting = set[str](), ["/"]
        while waiting and len(seen) < 400:
            where = waiting.pop()
            if where in seen or where.startswith("/ui/extend"):
                continue
            seen.add(where)
            waiting += [urljoin(where, link) for link in (await pages.get(where)).links]
        assert sum(where.startswith("/ui/session?") for where in seen) == 15
        assert sum(where.startswith("/ui/explain?") for where in seen) > 20

    run()


@in_loop
async def test_a_session_is_found_by_its_id_whatever_it_holds() -> None:
    pages = Pages(FakeConsole(3, name=ODD))
    for session in pages.host.rows:
        assert session in (await pages.get(address("/ui/session", id=session))).text
        led = await pages.send("GET", f"/ui/sessions/{address('x', id=session).partition('=')[2]}".replace("+", "%20"))
        assert led.headers["location"] == address("/ui/session", id=session)


@in_loop
async def test_the_overview_tells_the_last_hour_and_what_stands() -> None:
    pages = Pages(FakeConsole(40))
    found = await pages.get("/")
    assert {"Calls", "Spend", "Blocks", "Would-blocks", "Coverage", "Last call"} <= {*found.pieces}
    assert "94%" in found.text
    assert len([a for a in found.links if a.startswith("/ui/reset?key=session")]) == len(pages.host.standing)
    assert len(found.all("svg", **{"class": "spark"})) == 3


@in_loop
async def test_the_sessions_can_be_searched_filtered_sorted_and_paged() -> None:
    pages = Pages(FakeConsole(300))
    first = await pages.get("/ui/sessions")
    assert len(sessions_of(first)) == 50
    (following,) = (a["href"] for a in first.all("a", id="next"))
    second = await pages.get(following)
    assert sessions_of(second) == [f"run-{n:05d}" for n in range(50, 100)]
    assert "live" not in [a.get("hx-trigger") for a in second.all("div", id="live")], (
        "a page that is read stays as it is"
    )
    dearest = await pages.get("/ui/sessions?sort=cost")
    assert sessions_of(dearest)[0] == max(pages.host.rows.values(), key=lambda row: row.cost_nano_usd).session
    assert [a.get("aria-sort") for a in dearest.all("th") if "aria-sort" in a] == ["descending"]
    some = await pages.get("/ui/sessions?query=run-0001&state=open&since=")
    assert sessions_of(some) == ["run-00011"]
    assert "No session is like that" in (await pages.get("/ui/sessions?query=nothing")).text
    assert sessions_of(await pages.get("/ui/sessions?since=1h")) == [], "they are of another year"


@in_loop
async def test_equal_steps_of_a_timeline_look_equal_and_the_table_says_the_same() -> None:
    pages = Pages()
    row = pages.host.rows["run-00011"]
    steps = await pages.host.timeline(row.session, 200)
    found = await pages.get(f"/ui/session?id={row.session}")
    drawn = [a["class"].split()[1] for a in found.all("svg") if a.get("class", "").startswith("step ")]
    assert drawn == [f"k{step.loop}" if step.loop else "lone" for step in steps]
    assert len(found.all("path", **{"class": "fired"})) - 1 == sum(bool(step.rules) for step in steps)
    assert len(found.all("circle", **{"class": "failed"})) - 1 == sum(bool(step.error) for step in steps)
    assert all(step.span_id in found.text for step in steps)
    assert row.message in found.text


@in_loop
async def test_budgets_tell_when_they_begin_anew() -> None:
    found = await Pages().get("/ui/budgets?query=user:u-12")
    times = [a["datetime"] for a in found.all("time") if "data-until" in a]
    assert times == ["2026-01-02T00:00:00.000Z", "2026-01-01T13:12:00.000Z"]
    assert "$4.80 of $5.00" in found.text
    assert "warning" in found.text


@in_loop
async def test_alerts_are_listed_with_what_can_be_done() -> None:
    found = await Pages(alerts=FakeAlerts()).get("/ui/alerts?state=firing")
    assert {a["value"] for a in found.all("button") if a.get("name") == "do"} == {"ack", "1h", "24h"}
    assert "spanfuse reset session:run-00001" in found.text
    assert "exporters.alerts" in (await Pages().get("/ui/alerts")).text


@in_loop
async def test_why_is_told_for_any_key() -> None:
    pages = Pages()
    found = await pages.get("/ui/explain?key=session:run-00011")
    assert {"cycle", "velocity", "stands", "3 of 3 repeats"} <= {*found.pieces}
    assert "run-00011" in found.text


@pytest.mark.parametrize(
    ("where", "status", "said"),
    [
        ("/ui/session?id=nobody", 404, "nothing is known of this session"),
        ("/ui/explain?key=nothing", 400, "write a key as session:ID"),
        ("/ui/session", 400, "cannot be asked for"),
        ("/ui/sessions?sort=fame", 400, "cannot be asked for"),
        ("/ui/sessions?cursor=x", 400, "the cursor is none of this list"),
        ("/ui/extend?scope=user:u-1&budget=other", 404, "no such budget"),
    ],
)
def test_what_cannot_be_shown_is_said_in_a_page_and_to_scripts_in_a_line(where: str, status: int, said: str) -> None:
    @in_loop
    async def run() -> None:
        pages = Pages()
        answer = await pages.send("GET", where)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8")
        assert said in unescape(answer.text)
        line = await pages.send("GET", where, headers={"HX-Request": "true"})
        assert (line.status_code, line.headers["content-type"]) == (status, "text/plain; charset=utf-8")
        assert said in line.text
        assert "<" not in line.text

    run()


@in_loop
async def test_a_store_that_is_away_is_said_in_a_page() -> None:
    pages = Pages(alerts=FakeAlerts())
    pages.host.away = True
    for where in ("/", *(f"/ui/{name}" for name in LISTS if name != "alerts")):
        answer = await pages.send("GET", where)
        assert answer.status_code == 503, where
        assert "the store of this test is away" in answer.text


@in_loop
async def test_nothing_runs_that_is_not_a_file_of_this_host() -> None:
    pages = Pages(alerts=FakeAlerts())
    for where in addresses(pages.host):
        answer = await pages.send("GET", where)
        assert answer.headers["content-security-policy"].startswith("default-src 'self';")
        assert answer.headers["cache-control"] == "no-store"
        found = Document(answer.text)
        sources = [a.get("src", "") for a in found.all("script")] + [a["href"] for a in found.all("link")]
        assert all(source.startswith("/ui/static/") for source in sources)
        assert not [a for _, a in found.elements for name in a if name == "style" or name.startswith(("on", "hx-on"))]


@in_loop
async def test_files_are_kept_until_they_change() -> None:
    pages = Pages()
    found = await pages.get("/")
    for source in [a["src"] for a in found.all("script")] + [a["href"] for a in found.all("link")]:
        answer = await pages.send("GET", source)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        assert re.search(r"\?v=[0-9a-f]{12}$", source)
    for name in ("none.css", "..%2Fshell.py", "htmx.LICENSE.txt"):
        assert (await pages.send("GET", f"/ui/static/{name}")).status_code == 404


def test_templates_escape_all_they_show() -> None:
    for template in (FOLDER / "templates").iterdir():
        text = template.read_text(encoding="utf-8")
        assert not re.search(r"\|\s*safe|autoescape|Markup|javascript:|https?://", text), template.name


def sessions_of(found: Document) -> list[str]:
    """The sessions that are listed."""
    return [a["href"].partition("id=")[2] for a in found.all("a") if a.get("href", "").startswith("/ui/session?")]

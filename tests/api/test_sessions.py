"""Sessions, their timelines, and detections."""

from __future__ import annotations

from typing import Any

import pytest

from spanfuse_processor.api.console import SessionDetail
from spanfuse_processor.exporters.readmodel.model import SessionPage, SessionQuery, StepRow
from spanfuse_schemas import Decision, Detection
from tests.support.api import Api
from tests.support.console import NOW_NS
from tests.support.loops import in_loop


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"query": "RUN-0001"},
        {"state": "open"},
        {"agent": "research", "user": "u-0"},
        {"team": "team-1"},
        {"since_ns": NOW_NS - 10 * 60 * 10**9},
        {"sort": "cost", "limit": 7},
    ],
    ids=lambda query: "-".join(query) or "all",
)
def test_sessions_are_searched_as_the_host_searches(query: dict[str, Any]) -> None:
    @in_loop
    async def run() -> None:
        api = Api()
        status, body = await api("GET", "/v1/sessions", params=query)
        assert status == 200
        assert SessionPage.model_validate(body) == await api.host.sessions(SessionQuery(**query))

    run()


@in_loop
async def test_a_page_goes_on_behind_the_one_before(api: Api) -> None:
    _, first = await api("GET", "/v1/sessions?limit=200")
    _, rest = await api("GET", f"/v1/sessions?limit=200&cursor={first['next']}")
    assert len({row["session"] for page in (first, rest) for row in page["sessions"]}) == 300
    assert rest["next"] == ""
    assert await api("GET", "/v1/sessions?cursor=x") == (400, {"error": "the cursor is none of this list"})


@pytest.mark.parametrize("query", ["state=ajar", "sort=age", "since_ns=-1", "since_ns=x", "limit=1001"])
def test_a_search_that_is_none_is_refused(query: str) -> None:
    @in_loop
    async def run() -> None:
        status, body = await Api()("GET", f"/v1/sessions?{query}")
        assert status == 400
        assert body["error"].startswith(query.partition("=")[0])

    run()


@in_loop
async def test_a_row_has_all_its_fields_also_those_of_nothing(api: Api) -> None:
    _, body = await api("GET", "/v1/sessions?limit=1&query=run-00001")
    assert set(body["sessions"][0]) == set(SessionPage.model_fields["sessions"].annotation.__args__[0].model_fields)  # type: ignore[union-attr]


@in_loop
async def test_a_session_is_found_by_its_id_whatever_it_holds(api: Api) -> None:
    for id in ("a/b", "a/timeline", "ä b", "100%", "two\nlines"):
        api.host.rows[id] = api.host.rows["run-00011"].model_copy(update={"session": id})
    for path in ("a%2Fb", "a/b", "a%2Ftimeline", "%C3%A4%20b", "100%25", "two%0Alines"):
        status, body = await api("GET", f"/v1/sessions/{path}")
        assert status == 200
        assert "decision" in body
    assert await api("GET", "/v1/sessions/unknown") == (404, {"error": "no such session"})


@in_loop
async def test_a_session_has_its_breaker_and_its_budgets(api: Api) -> None:
    _, body = await api("GET", "/v1/sessions/run-00011")
    assert SessionDetail.model_validate(body) == await api.host.session("run-00011")
    assert body["budgets"][0]["budget"] == "session/total"
    assert (await api("GET", "/v1/sessions/run-00001"))[1]["decision"] is None


@in_loop
async def test_a_timeline_has_steps_detections_and_decisions(api: Api) -> None:
    status, body = await api("GET", "/v1/sessions/run-00011/timeline")
    assert status == 200
    steps = [StepRow.model_validate(step) for step in body["steps"]]
    assert steps == await api.host.timeline("run-00011", 200)
    assert {Detection.model_validate(d).session for d in body["detections"]} == {"run-00011"}
    assert [Decision.model_validate(d).rule for d in body["decisions"]] == ["cycle"]
    assert len((await api("GET", "/v1/sessions/run-00011/timeline?limit=3"))[1]["steps"]) == 3
    assert await api("GET", "/v1/sessions/unknown/timeline") == (404, {"error": "no such session"})


@in_loop
async def test_detections_come_page_by_page_and_by_their_fields(api: Api) -> None:
    _, first = await api("GET", "/v1/detections")
    assert len(first["detections"]) == 100
    _, second = await api("GET", "/v1/detections", params={"cursor": first["next"]})
    assert [Detection.model_validate(d) for d in second["detections"]] == api.host.found[100:200]
    _, few = await api("GET", "/v1/detections?rule=cycle&action=warn&limit=7")
    assert {(d["rule"], d["action"]) for d in few["detections"]} == {("cycle", "warn")}
    assert len(few["detections"]) == 7

"""What stands, why, and its release."""

from __future__ import annotations

import pytest

from spanfuse_processor.api.console import Explanation
from spanfuse_schemas import Decision
from tests.support.api import Api
from tests.support.loops import in_loop

KEY = "session:run-00011"


@in_loop
async def test_the_snapshot_has_every_open_decision(api: Api) -> None:
    status, body = await api("GET", "/v1/decisions")
    assert status == 200
    assert [Decision.model_validate(d) for d in body["decisions"]] == api.host.decisions()
    assert len((await api("GET", "/v1/decisions?limit=3"))[1]["decisions"]) == 3


@in_loop
async def test_pages_hold_every_breaker_once_newest_first(api: Api) -> None:
    seen: list[Decision] = []
    cursor = ""
    while True:
        _, body = await api("GET", "/v1/breakers", params={"limit": 5, "cursor": cursor})
        assert len(body["breakers"]) <= 5
        seen += [Decision.model_validate(d) for d in body["breakers"]]
        if not (cursor := body["next"]):
            break
    assert seen == sorted(api.host.decisions(), key=lambda d: (d.issued_at_ns, d.key), reverse=True)


@pytest.mark.parametrize(
    ("query", "holds"),
    [
        ({"state": "half_open"}, lambda d: d.state == "half_open"),
        ({"mode": "enforce"}, lambda d: d.mode == "enforce"),
        ({"rule": "cycle"}, lambda d: d.rule == "cycle"),
        ({"query": "RUN-0001"}, lambda d: "run-0001" in d.key),
        ({"scope": "agent"}, lambda d: d.key.startswith("agent:")),
        ({"state": "open", "action": "nudge"}, lambda d: False),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_each_field_narrows_the_list(query: dict[str, str], holds: object) -> None:
    @in_loop
    async def run() -> None:
        assert callable(holds)
        api = Api()
        _, body = await api("GET", "/v1/breakers", params=query)
        assert {d["key"] for d in body["breakers"]} == {d.key for d in api.host.decisions() if holds(d)}

    run()


@pytest.mark.parametrize("cursor", ["x", "!", "WzEsMl0", "e30", "W10", "bnVsbA", "é"])
def test_a_cursor_of_another_list_is_refused(cursor: str) -> None:
    @in_loop
    async def run() -> None:
        answer = await Api()("GET", "/v1/breakers", params={"cursor": cursor})
        assert answer == (400, {"error": "the cursor is none of this list"})

    run()


@in_loop
async def test_a_breaker_has_what_stands_and_what_was_decided(api: Api) -> None:
    status, body = await api("GET", f"/v1/breakers/{KEY}")
    assert status == 200
    assert (body["key"], body["decision"]["rule"], len(body["history"])) == (KEY, "cycle", 1)
    assert await api("GET", "/v1/breakers/session:nobody") == (
        404,
        {"error": "nothing was ever decided about this key"},
    )


@in_loop
async def test_it_is_explained_why_a_breaker_tripped_or_did_not(api: Api) -> None:
    status, body = await api("GET", f"/v1/explain/{KEY}")
    assert status == 200
    assert Explanation.model_validate(body) == await api.host.explain(KEY)
    assert body["rules"][0]["stands"] is True
    assert (await api("GET", "/v1/explain/run-00011"))[0] == 400


@in_loop
async def test_a_reset_says_what_became_of_the_breaker(api: Api) -> None:
    answer = await api("POST", "/v1/reset", json={"key": f" {KEY} ".strip(), "actor": "alice"})
    assert answer == (200, {"key": KEY, "state": "closed", "epoch": 2})
    assert api.host.resets == [(KEY, "alice")]
    assert await api("POST", "/v1/reset", json={"key": "agent:x"}) == (404, {"error": "nothing is known of this key"})

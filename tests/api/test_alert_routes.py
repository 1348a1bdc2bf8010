"""Alerts: listed, taken on, snoozed, tried."""

from __future__ import annotations

import pytest

from spanfuse_processor.api.alerts import Alert
from tests.support.api import Api, FakeAlerts
from tests.support.loops import in_loop


def alerts(api: Api) -> FakeAlerts:
    assert api.alerts is not None
    return api.alerts


@in_loop
async def test_alerts_come_page_by_page_and_by_their_fields(api: Api) -> None:
    _, body = await api("GET", "/v1/alerts?limit=2")
    assert [Alert.model_validate(a) for a in body["alerts"]] == list(alerts(api).known.values())[:2]
    _, rest = await api("GET", f"/v1/alerts?cursor={body['next']}")
    assert [a["id"] for a in rest["alerts"]] == ["a2", "a3", "a4"]
    _, few = await api("GET", "/v1/alerts?state=firing&severity=critical")
    assert [a["id"] for a in few["alerts"]] == ["a1"]
    assert (await api("GET", "/v1/alerts?severity=loud"))[0] == 400


@in_loop
async def test_an_alert_is_taken_on_and_snoozed(api: Api) -> None:
    status, body = await api("POST", "/v1/alerts/a1/ack", json={"actor": "alice"})
    assert (status, body["acknowledged_by"]) == (200, "alice")
    status, body = await api("POST", "/v1/alerts/a1/snooze", json={"until_ns": 7})
    assert (status, body["snoozed_until_ns"]) == (200, 7)
    for what, order in (("ack", {}), ("snooze", {"until_ns": 7})):
        assert await api("POST", f"/v1/alerts/no/{what}", json=order) == (404, {"error": "no such alert"})


@in_loop
async def test_a_receiver_is_tried(api: Api) -> None:
    status, body = await api("POST", "/v1/alerts/test", json={"receiver": "on-call", "actor": "alice"})
    assert (status, body["deliveries"][0]["delivered"]) == (200, True)
    assert alerts(api).tested == [("on-call", "alice")]
    assert await api("POST", "/v1/alerts/test", json={"receiver": "x"}) == (400, {"error": "there is no receiver x"})


@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("POST", "/test"), ("POST", "/a/ack")])
def test_without_alerts_it_is_said_what_to_set(method: str, path: str) -> None:
    @in_loop
    async def run() -> None:
        answer = await Api(alerts=False)(method, f"/v1/alerts{path}", json={})
        assert answer == (409, {"error": "exporters.alerts is not set"})

    run()

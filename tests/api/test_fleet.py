"""Agents and models side by side, and sums by the minute."""

from __future__ import annotations

from spanfuse_processor.exporters.readmodel.model import MinuteRow
from tests.support.api import Api
from tests.support.loops import in_loop


@in_loop
async def test_agents_and_models_are_listed_as_the_host_does(api: Api) -> None:
    assert await api("GET", "/v1/agents") == (200, {"agents": await api.host.agents()})
    assert await api("GET", "/v1/models") == (200, {"models": await api.host.models()})
    assert len((await api("GET", "/v1/agents?limit=2"))[1]["agents"]) == 2


@in_loop
async def test_a_series_has_a_row_for_each_minute(api: Api) -> None:
    status, body = await api("GET", "/v1/series?kind=agent&name=research&minutes=30")
    assert status == 200
    assert [MinuteRow.model_validate(row) for row in body["minutes"]] == await api.host.series("agent", "research", 30)
    assert set(body["minutes"][0]) == {"minute", "calls", "cost_nano_usd", "tokens", "blocks"}


@in_loop
async def test_all_together_need_no_name_and_everything_else_does(api: Api) -> None:
    assert (await api("GET", "/v1/series"))[1]["name"] == "*"
    assert await api("GET", "/v1/series?kind=agent") == (400, {"error": "name: whose, of kind agent"})
    assert (await api("GET", "/v1/series?kind=user&name=u"))[0] == 400
    assert (await api("GET", "/v1/series?minutes=1441"))[0] == 400

"""The REST surface, against a host that a test commands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import httpx
import pytest

from spanfuse_processor.api.app import create_app
from spanfuse_processor.core.budgets import Ordered
from spanfuse_processor.errors import SpanfuseError, UnavailableError
from spanfuse_processor.exporters.hub import Hub, Listener
from spanfuse_schemas import BudgetOrder, Decision, Policy, PolicyNotice
from tests.support.loops import in_loop

OPEN = Decision(key="session:a/b", state="open", action="block", mode="enforce", rule="cycle", issued_at_ns=7, epoch=3)
ACCOUNT = {"scope": "user:u", "budget": "user/daily", "limit": 5}
ORDER = {"id": "1", "scope": "user:u", "budget": "user/daily", "action": "set", "amount": 5, "at_ns": 7}


class FakeProcessor:
    """One open breaker, and what it was asked."""

    def __init__(self) -> None:
        self.ready = True
        self.broken = False
        self.asked: list[Any] = []
        self.hub = Hub()

    def _answer(self, *asked: Any) -> None:
        self.asked.append(asked)
        if self.broken:
            raise UnavailableError("storage x: database is locked")

    def status(self) -> dict[str, Any]:
        self._answer("status")
        return {"version": "1", "counts": {"calls": 3}}

    def decisions(self) -> list[Decision]:
        self._answer("decisions")
        return [OPEN]

    def follow(self) -> tuple[Iterable[bytes], Listener]:
        return [], self.hub.listen()

    def session(self, session: str) -> dict[str, Any] | None:
        self._answer("session", session)
        return {"session": session, "calls": 3} if session == "a/b" else None

    def detections(self, limit: int) -> list[bytes]:
        self._answer("detections", limit)
        return [b'{"rule":"cycle"}', b'{"rule":"near"}']

    async def agents(self) -> list[dict[str, Any]]:
        return [{"agent": "a", "calls": 3}]

    async def models(self) -> list[dict[str, Any]]:
        return [{"model": "m", "calls": 3}]

    def reset(self, key: str, actor: str) -> Decision | None:
        self._answer("reset", key, actor)
        return OPEN.model_copy(update={"state": "closed", "action": "allow", "epoch": 4}) if key == OPEN.key else None

    async def budgets(self, scope: str = "") -> list[dict[str, Any]]:
        self._answer("budgets", scope)
        return [ACCOUNT]

    async def order(self, order: BudgetOrder) -> Ordered:
        self._answer("order", order)
        if order.budget == ACCOUNT["budget"]:
            return Ordered(
                order, done=order.action == "set", why="" if order.action == "set" else "twice", account=ACCOUNT
            )
        return Ordered(order, done=False, why="no such budget")

    def audit(self, limit: int) -> list[bytes]:
        self._answer("audit", limit)
        return [b'{"done":true}']

    @property
    def policy(self) -> PolicyNotice:
        return PolicyNotice(key="policy:*", epoch=7, issued_at_ns=1, policy=Policy(mode="enforce"))

    async def rebuild(self) -> int:
        self._answer("rebuild")
        raise SpanfuseError("extensions.ledger is not set")


class Api:
    """The application with its host, without a socket."""

    def __init__(self) -> None:
        self.host = FakeProcessor()

    async def __call__(self, method: str, path: str, **request: Any) -> tuple[int, Any]:
        transport = httpx.ASGITransport(create_app(self.host), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
            response = await client.request(method, path, **request)
        return response.status_code, response.json()


@pytest.fixture
def api() -> Api:
    return Api()


@in_loop
async def test_the_policy_in_force_is_shown_as_guards_are_told_it(api: Api) -> None:
    status, body = await api("GET", "/v1/policy")
    assert status == 200
    assert PolicyNotice.model_validate(body) == api.host.policy


@in_loop
async def test_the_snapshot_has_every_open_decision(api: Api) -> None:
    status, body = await api("GET", "/v1/decisions")
    assert status == 200
    assert [Decision.model_validate(d) for d in body["decisions"]] == [OPEN]


@in_loop
async def test_status_and_health_answer(api: Api) -> None:
    assert await api("GET", "/v1/status") == (200, {"version": "1", "counts": {"calls": 3}})
    assert await api("GET", "/healthz") == (200, {"healthy": True})
    assert await api("GET", "/readyz") == (200, {"ready": True})
    api.host.ready = False
    assert await api("GET", "/readyz") == (503, {"ready": False})


@in_loop
async def test_a_session_is_found_by_its_id_whatever_it_holds(api: Api) -> None:
    assert await api("GET", "/v1/sessions/a%2Fb") == (200, {"session": "a/b", "calls": 3})
    assert await api("GET", "/v1/sessions/unknown") == (404, {"error": "no such session"})


@in_loop
async def test_detections_are_limited(api: Api) -> None:
    assert await api("GET", "/v1/detections") == (200, {"detections": [{"rule": "cycle"}, {"rule": "near"}]})
    await api("GET", "/v1/detections?limit=7")
    assert api.host.asked == [("detections", 100), ("detections", 7)]


@pytest.mark.parametrize("limit", ["0", "-1", "10001", "x", "", "1e3", "٣", "9" * 5000])
def test_a_limit_that_is_none_is_refused(limit: str) -> None:
    @in_loop
    async def run() -> None:
        api = Api()
        status, body = await api("GET", "/v1/detections", params={"limit": limit})
        assert (status, body) == (400, {"error": "limit must be 1 to 10000"})

    run()


@in_loop
async def test_a_reset_says_what_became_of_the_breaker(api: Api) -> None:
    answer = await api("POST", "/v1/reset", json={"key": "session:a/b", "actor": "alice"})
    assert answer == (200, {"key": "session:a/b", "state": "closed", "epoch": 4})
    assert api.host.asked == [("reset", "session:a/b", "alice")]
    assert await api("POST", "/v1/reset", json={"key": "agent:x"}) == (404, {"error": "nothing is known of this key"})


@pytest.mark.parametrize(
    ("request_", "status", "error"),
    [
        ({"content": b"{", "headers": {"content-type": "application/json"}}, 400, "Invalid JSON"),
        ({"json": {}}, 400, "key: Field required"),
        ({"json": {"key": ""}}, 400, "key: String should have at least 1 character"),
        ({"json": {"key": "session:a", "secret": 1}}, 400, "secret: Extra inputs are not permitted"),
        ({"json": {"key": "x" * 70_000}}, 413, "larger than 65536 bytes"),
        ({"content": b'{"key":"session:a"}', "headers": {"content-type": "text/plain"}}, 415, "application/json"),
        ({"data": {"key": "session:a"}}, 415, "application/json"),
    ],
)
def test_an_order_that_is_none_is_refused_in_one_line(request_: dict[str, Any], status: int, error: str) -> None:
    @in_loop
    async def run() -> None:
        api = Api()
        found, body = await api("POST", "/v1/reset", **request_)
        assert found == status
        assert error in body["error"]
        assert api.host.asked == []

    run()


@in_loop
async def test_errors_are_json(api: Api) -> None:
    assert await api("GET", "/v2/nothing") == (404, {"error": "Not Found"})
    assert await api("GET", "/v1/reset") == (405, {"error": "Method Not Allowed"})
    api.host.broken = True
    for path in ("/v1/status", "/v1/decisions", "/v1/sessions/a", "/v1/detections"):
        assert await api("GET", path) == (503, {"error": "storage x: database is locked"})


@in_loop
async def test_what_nobody_foresaw_is_a_500_without_details(api: Api) -> None:
    api.host.status = lambda: 1 / 0  # type: ignore[method-assign, assignment, return-value]
    assert await api("GET", "/v1/status") == (500, {"error": "unexpected: ZeroDivisionError"})


@in_loop
async def test_agents_and_models_are_listed() -> None:
    api = Api()
    assert await api("GET", "/v1/agents") == (200, {"agents": [{"agent": "a", "calls": 3}]})
    assert await api("GET", "/v1/models") == (200, {"models": [{"model": "m", "calls": 3}]})


@in_loop
async def test_accounts_are_those_of_one_scope_or_of_all(api: Api) -> None:
    assert await api("GET", "/v1/budgets") == (200, {"budgets": [ACCOUNT]})
    await api("GET", "/v1/budgets?scope=user:u")
    assert api.host.asked == [("budgets", ""), ("budgets", "user:u")]


@in_loop
async def test_an_order_about_a_budget_is_answered_with_the_account_and_why_it_was_not_done(api: Api) -> None:
    assert await api("POST", "/v1/budgets/orders", json=ORDER) == (200, {"done": True, "why": "", "account": ACCOUNT})
    assert api.host.asked == [("order", BudgetOrder.model_validate(ORDER))]
    again = await api("POST", "/v1/budgets/orders", json=ORDER | {"action": "reset"})
    assert again == (200, {"done": False, "why": "twice", "account": ACCOUNT})
    unknown = await api("POST", "/v1/budgets/orders", json=ORDER | {"budget": "x"})
    assert unknown == (404, {"error": "no such budget"})


@in_loop
async def test_what_became_of_orders_is_listed_up_to_a_limit(api: Api) -> None:
    assert await api("GET", "/v1/budgets/audit?limit=5") == (200, {"audit": [{"done": True}]})
    assert api.host.asked == [("audit", 5)]


@in_loop
async def test_what_this_deployment_cannot_do_is_a_409_that_says_why(api: Api) -> None:
    answer = await api("POST", "/v1/budgets/rebuild", json={})
    assert answer == (409, {"error": "extensions.ledger is not set"})

"""What holds for every route: the shape of errors, bounds, and whose requests are taken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from spanfuse_processor.api import door
from tests.support.api import Api
from tests.support.loops import in_loop

ORDER = b'{"key":"session:run-00011"}'


@in_loop
async def test_health_tells_of_progress_and_readiness_of_spans(api: Api) -> None:
    assert await api("GET", "/healthz") == (200, {"healthy": True})
    assert await api("GET", "/readyz") == (200, {"ready": True})
    api.host.ready = api.host.live = False
    assert await api("GET", "/healthz") == (503, {"healthy": False})
    assert await api("GET", "/readyz") == (503, {"ready": False})


@in_loop
async def test_the_status_is_the_host_s(api: Api) -> None:
    assert await api("GET", "/v1/status") == (200, await api.host.status())


@in_loop
async def test_errors_are_one_sentence(api: Api) -> None:
    assert await api("GET", "/v2/nothing") == (404, {"error": "Not Found"})
    assert await api("GET", "/v1/reset") == (405, {"error": "Method Not Allowed"})
    assert await api("GET", "/v1/status/") == (404, {"error": "Not Found"})
    api.host.away = True
    for path in ("/v1/status", "/v1/decisions", "/v1/sessions/a", "/v1/detections"):
        assert await api("GET", path) == (503, {"error": "the store of this test is away"})


@in_loop
async def test_what_nobody_foresaw_is_a_500_without_details(api: Api) -> None:
    api.host.status = lambda: 1 / 0  # type: ignore[method-assign, assignment, return-value]
    assert await api("GET", "/v1/status") == (500, {"error": "unexpected: ZeroDivisionError"})


@pytest.mark.parametrize(
    "path", ["/v1/detections", "/v1/sessions", "/v1/breakers", "/v1/decisions", "/v1/budgets/audit", "/v1/agents"]
)
@pytest.mark.parametrize("limit", ["0", "-1", "1000001", "x", "", "1e3", "٣", "9" * 5000])
def test_a_limit_that_is_none_is_refused(path: str, limit: str) -> None:
    @in_loop
    async def run() -> None:
        status, body = await Api()("GET", path, params={"limit": limit})
        assert status == 400
        assert body["error"].startswith("limit: ")

    run()


@pytest.mark.parametrize(
    ("request_", "status", "error"),
    [
        ({"content": b"{", "headers": {"content-type": "application/json"}}, 400, "Invalid JSON"),
        ({"content": b"", "headers": {"content-type": "application/json"}}, 400, "Field required"),
        ({"content": b"[" * 60_000, "headers": {"content-type": "application/json"}}, 400, "body"),
        ({"content": b'{"key":"\\ud800"}', "headers": {"content-type": "application/json"}}, 400, "key"),
        ({"json": {}}, 400, "key: Field required"),
        ({"json": {"key": ""}}, 400, "key: String should have at least 1 character"),
        ({"json": {"key": "session:a", "secret": 1}}, 400, "secret: Extra inputs are not permitted"),
        ({"json": {"key": "x" * 70_000}}, 413, "larger than 65536 bytes"),
        ({"content": ORDER, "headers": {"content-type": "text/plain"}}, 415, "application/json"),
        ({"content": ORDER}, 415, "application/json"),
        ({"data": {"key": "session:a"}}, 403, "another site"),
    ],
)
def test_a_body_that_is_none_is_refused_in_one_line(request_: dict[str, Any], status: int, error: str) -> None:
    @in_loop
    async def run() -> None:
        api = Api()
        if status == 415:
            request_["headers"] = request_.get("headers", {}) | {"Origin": "http://localhost"}
        found, body = await api("POST", "/v1/reset", **request_)
        assert found == status
        assert error in body["error"]
        assert api.host.resets == []

    run()


@in_loop
async def test_a_body_may_come_in_pieces_and_is_bounded_all_the_same(api: Api) -> None:
    async def pieces(count: int) -> Any:
        yield b'{"key":"'
        for _ in range(count):
            yield b"x" * 1000
        yield b'"}'

    headers = {"content-type": "application/json"}
    assert (await api("POST", "/v1/reset", content=pieces(2), headers=headers))[0] == 404
    assert (await api("POST", "/v1/reset", content=pieces(100), headers=headers))[0] == 413


@in_loop
async def test_a_body_that_does_not_come_is_not_waited_for(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "BODY_TIMEOUT_S", 0.05)

    async def pieces() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    headers = {"content-type": "application/json"}
    assert (await api("POST", "/v1/reset", content=pieces(), headers=headers))[0] == 408


@in_loop
async def test_a_query_is_bounded(api: Api) -> None:
    assert (await api("GET", "/v1/sessions", params={"query": "x" * 257}))[0] == 400
    assert (await api("GET", "/v1/sessions", params={"query": "x" * 20_000}))[0] == 414


@pytest.mark.parametrize(
    ("headers", "passes"),
    [
        ({}, True),
        ({"Origin": "http://localhost"}, True),
        ({"Origin": "http://evil.example"}, False),
        ({"Origin": "null"}, False),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "https://behind.a.proxy"}, True),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-site", "Origin": "http://localhost"}, False),
    ],
)
def test_no_page_of_another_site_gives_orders(headers: dict[str, str], passes: bool) -> None:
    @in_loop
    async def run() -> None:
        api = Api()
        status, _ = await api("POST", "/v1/reset", json={"key": "session:run-00011"}, headers=headers)
        assert status == (200 if passes else 403)
        assert len(api.host.resets) == passes
        assert (await api.send("GET", "/v1/status", headers=headers)).status_code == 200

    run()


@pytest.mark.parametrize(
    ("host", "passes"),
    [
        ("localhost:8787", True),
        ("127.0.0.1:8787", True),
        ("[::1]:8787", True),
        ("10.0.0.7", True),
        ("app.localhost", True),
        ("", True),
        ("evil.example:8787", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
    ],
)
def test_without_tokens_a_name_that_a_page_elsewhere_may_own_is_not_answered(host: str, passes: bool) -> None:
    @in_loop
    async def run() -> None:
        response = await Api().send("GET", "/v1/decisions", headers={"Host": host})
        assert response.status_code == (200 if passes else 403)

    run()


@in_loop
async def test_answers_are_not_kept_nor_guessed_at(api: Api) -> None:
    headers = (await api.send("GET", "/v1/decisions")).headers
    assert (headers["cache-control"], headers["x-content-type-options"]) == ("no-store", "nosniff")


@in_loop
async def test_head_is_answered_wherever_get_is(api: Api) -> None:
    for path in ("/healthz", "/v1/status", "/v1/events", "/v1/decisions/stream"):
        assert (await api.send("HEAD", path)).status_code == 200
    assert len(api.host.log.hub) == 0

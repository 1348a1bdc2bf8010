"""Who may do what, as a table: each route, each token."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from spanfuse_processor.api.access import Access
from spanfuse_processor.config.api import Api as Settings
from tests.support.api import ADMIN, EXPIRED, OPERATE, READ, SETTINGS, Api, bearer
from tests.support.loops import in_loop

WHICH = {"scope": "user:u-7", "budget": "user/daily", "amount": 1}
ORDER = WHICH | {"id": "1", "action": "set", "at_ns": 7}
READS = [
    "/v1/status",
    "/v1/decisions",
    "/v1/breakers",
    "/v1/breakers/session:run-00011",
    "/v1/explain/session:run-00011",
    "/v1/sessions",
    "/v1/sessions/run-00011",
    "/v1/sessions/run-00011/timeline",
    "/v1/detections",
    "/v1/agents",
    "/v1/models",
    "/v1/series",
    "/v1/budgets",
    "/v1/budgets/audit",
    "/v1/policy",
    "/v1/policy/overlay",
    "/v1/alerts",
    "/metrics",
]
TABLE: list[tuple[str, str, Any, str]] = [
    *(("GET", path, None, "read") for path in READS),
    ("HEAD", "/v1/events", None, "read"),
    ("HEAD", "/v1/decisions/stream", None, "read"),
    ("POST", "/v1/reset", {"key": "session:run-00011"}, "operate"),
    ("PUT", "/v1/budgets", WHICH, "operate"),
    ("POST", "/v1/budgets/extend", WHICH, "operate"),
    ("POST", "/v1/budgets/orders", ORDER, "operate"),
    ("POST", "/v1/policy/dry-run", {"overlay": {}}, "operate"),
    ("POST", "/v1/alerts/a1/ack", {}, "operate"),
    ("POST", "/v1/alerts/a1/snooze", {"until_ns": 7}, "operate"),
    ("POST", "/v1/alerts/test", {}, "operate"),
    ("PUT", "/v1/policy", {"overlay": {}}, "admin"),
    ("POST", "/v1/budgets/rebuild", {}, "admin"),
]
OPEN_TO_ALL = ["/healthz", "/readyz", "/openapi.json"]
RANK = {"read": 0, "operate": 1, "admin": 2}
CALLERS = {
    "nobody": ({}, None),
    "wrong": (bearer("x" * 24), None),
    "another scheme": ({"Authorization": f"Basic {ADMIN}"}, None),
    "empty": ({"Authorization": ""}, None),
    "expired": (bearer(EXPIRED), None),
    "no cookie of ours": ({"Cookie": f"spanfuse_login=root:9999999999:{'0' * 64}", "Origin": "http://localhost"}, None),
    "read": (bearer(READ), "read"),
    "operate": (bearer(OPERATE), "operate"),
    "admin": (bearer(ADMIN), "admin"),
}


@pytest.mark.parametrize(("method", "path", "body", "needs"), TABLE, ids=lambda v: v if isinstance(v, str) else "")
def test_each_route_takes_who_has_its_role_and_nobody_else(method: str, path: str, body: Any, needs: str) -> None:
    @in_loop
    async def run() -> None:
        api = Api(SETTINGS)
        for caller, (headers, role) in CALLERS.items():
            response = await api.send(method, path, json=body, headers=headers)
            assert response.status_code == _expected(role, needs), caller
            challenge = response.headers.get("www-authenticate", "")
            assert challenge.startswith('Bearer realm="spanfuse"') == response.is_error
            if response.status_code == 403:
                assert challenge.endswith(f'error="insufficient_scope", scope="{needs}"')
                assert f"this needs the role {needs}" in response.json()["error"]

    run()


def _expected(role: str | None, needs: str) -> int:
    if role is None:
        return 401
    return 200 if RANK[role] >= RANK[needs] else 403


@pytest.mark.parametrize("path", OPEN_TO_ALL)
def test_probes_and_the_document_need_no_token(path: str) -> None:
    @in_loop
    async def run() -> None:
        assert (await Api(SETTINGS).send("GET", path)).status_code == 200

    run()


@in_loop
async def test_the_table_has_every_route() -> None:
    document = (await Api()("GET", "/openapi.json"))[1]
    asked = {(method.replace("HEAD", "GET").lower(), path) for method, path, *_ in TABLE}
    shown = {
        (method, path.replace("{session}", "run-00011").replace("{key}", "session:run-00011").replace("{id}", "a1"))
        for path, methods in document["paths"].items()
        for method in methods
    }
    apart = {("get", path) for path in OPEN_TO_ALL} | {("post", "/login"), ("post", "/logout")}
    assert shown - apart == asked


@in_loop
async def test_with_tokens_any_name_is_answered_and_an_unknown_path_tells_nothing() -> None:
    api = Api(SETTINGS)
    assert (
        await api.send("GET", "/v1/status", base="http://spanfuse.internal", headers=bearer(READ))
    ).status_code == 200
    assert (await api.send("GET", "/v1/nothing")).status_code == 401
    assert (
        await api.send("POST", "/v1/reset", content=b"{", headers={"content-type": "application/json"})
    ).status_code == 401


@in_loop
async def test_an_order_names_the_token_that_gave_it() -> None:
    api = Api(SETTINGS)
    for actor in ("", "alice", "oncall"):
        await api("POST", "/v1/reset", json={"key": "session:run-00011", "actor": actor}, headers=bearer(OPERATE))
    assert [by for _, by in api.host.resets] == ["oncall", "alice (oncall)", "oncall"]
    await api("PUT", "/v1/budgets", json=WHICH | {"actor": "a" * 128}, headers=bearer(OPERATE))
    assert api.host.orders[0].actor == f"{'a' * 128} (oncall)"


@in_loop
async def test_a_token_is_refused_from_the_moment_it_expires() -> None:
    now = [99.0]
    settings = Settings.model_validate({"tokens": [{"name": "t", "token": READ, "expires": "1970-01-01T00:01:40Z"}]})
    access = Access(settings, lambda: now[0])
    assert access.principal(_lowered(READ)).expires_s == 100
    now[0] = 100.0
    with pytest.raises(Exception, match="the token has expired"):
        access.principal(_lowered(READ))


def _lowered(token: str) -> dict[str, str]:
    return {name.lower(): value for name, value in bearer(token).items()}


@in_loop
async def test_no_token_is_ever_shown_or_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    api = Api(SETTINGS)
    api.host.status = lambda: 1 / 0  # type: ignore[method-assign, assignment, return-value]
    said = ""
    for token in (READ, ADMIN, EXPIRED, "unknown-" + "u" * 16):
        for path in ("/v1/status", "/v1/policy", "/v1/nothing"):
            response = await api.send("GET", path, headers=bearer(token))
            said += response.text + str(response.headers)
    said += caplog.text + repr(SETTINGS) + repr(api.access.__dict__)
    assert "ZeroDivisionError" in caplog.text
    assert not any(token in said for token in (READ, ADMIN, EXPIRED, "u" * 16))

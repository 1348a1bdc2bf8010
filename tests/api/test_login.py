"""A browser logs in with a token once, and sends a cookie from then on."""

from __future__ import annotations

from typing import Any

import pytest

from spanfuse_processor.api.access import COOKIE, Access
from spanfuse_processor.config.api import Api as Settings
from tests.support.api import EXPIRED, OPERATE, READ, SETTINGS, Api
from tests.support.loops import in_loop

HERE = {"Origin": "http://localhost"}
RESET = {"key": "session:run-00011"}


async def cookie_of(api: Api, token: str = OPERATE) -> dict[str, str]:
    response = await api.send("POST", "/login", json={"token": token}, headers=HERE)
    assert response.status_code == 200
    return {"Cookie": f"{COOKIE}={response.cookies[COOKIE]}"}


@in_loop
async def test_the_cookie_cannot_be_read_by_scripts_nor_sent_from_elsewhere() -> None:
    response = await Api(SETTINGS).send("POST", "/login", json={"token": OPERATE})
    said = response.headers["set-cookie"].lower()
    assert response.json() | {"expires_s": 0} == {"name": "oncall", "role": "operate", "expires_s": 0}
    assert {"httponly", "samesite=strict", "path=/"} <= {part.strip() for part in said.split(";")}
    assert "secure" not in said
    assert OPERATE not in said
    assert "max-age=43" in said
    tls = await Api(SETTINGS).send("POST", "/login", base="https://localhost", json={"token": OPERATE})
    assert "secure" in tls.headers["set-cookie"].lower()


@in_loop
async def test_who_is_logged_in_may_do_what_the_token_may() -> None:
    api = Api(SETTINGS)
    cookie = await cookie_of(api)
    assert (await api("GET", "/v1/status", headers=cookie))[0] == 200
    assert (await api("POST", "/v1/reset", json=RESET, headers=cookie | HERE))[0] == 200
    assert api.host.resets == [("session:run-00011", "oncall")]
    assert (await api("PUT", "/v1/policy", json={"overlay": {}}, headers=cookie | HERE))[0] == 403
    assert (await api("POST", "/v1/reset", json=RESET, headers=await cookie_of(api, READ) | HERE))[0] == 403


@pytest.mark.parametrize("headers", [{}, {"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "same-site"}])
def test_a_cookie_gives_no_orders_from_another_page(headers: dict[str, str]) -> None:
    @in_loop
    async def run() -> None:
        api = Api(SETTINGS)
        assert (await api("POST", "/v1/reset", json=RESET, headers=await cookie_of(api) | headers))[0] == 403
        assert api.host.resets == []

    run()


@in_loop
async def test_a_form_is_led_on_and_needs_to_say_where_it_comes_from() -> None:
    api = Api(SETTINGS)
    right = await api.send("POST", "/login", data={"token": OPERATE}, headers=HERE)
    assert (right.status_code, right.headers["location"]) == (303, "/")
    assert COOKIE in right.cookies
    for token in ("wrong-" + "w" * 16, EXPIRED):
        wrong = await api.send("POST", "/login", data={"token": token}, headers=HERE)
        assert (wrong.status_code, wrong.headers["location"]) == (303, "/?login=refused")
        assert COOKIE not in wrong.cookies
    assert (await api.send("POST", "/login", data={"token": OPERATE})).status_code == 403
    assert (await api.send("POST", "/login", data={"token": OPERATE}, headers={"Origin": "null"})).status_code == 403


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"json": {"token": "x" * 20}}, 401),
        ({"json": {"token": EXPIRED}}, 401),
        ({"json": {"token": ""}}, 400),
        ({"json": {"token": 7}}, 400),
        ({"json": {}}, 400),
        ({"content": b"{", "headers": {"content-type": "application/json"}}, 400),
        ({"json": {"token": "\u00e4" * 20}}, 401),
    ],
)
def test_a_login_that_is_none_is_refused(body: dict[str, Any], status: int) -> None:
    @in_loop
    async def run() -> None:
        response = await Api(SETTINGS).send("POST", "/login", **body)
        assert response.status_code == status
        assert "set-cookie" not in response.headers

    run()


@in_loop
async def test_without_tokens_there_is_nothing_to_log_in_to(api: Api) -> None:
    assert (await api("POST", "/login", json={"token": OPERATE}))[0] == 409


def _token(**more: Any) -> Settings:
    return Settings.model_validate({"tokens": [{"name": "oncall", "token": OPERATE, "role": "operate"} | more]})


def _admits(access: Access, cookie: str) -> bool:
    try:
        return access.principal({"cookie": f"{COOKIE}={cookie}"}).name == "oncall"
    except Exception:
        return False


def test_a_login_lasts_a_shift_and_no_longer_than_its_token() -> None:
    now = [1_000.0]
    _, cookie = Access(_token(), lambda: now[0]).login(OPERATE)
    _, short = Access(_token(expires="1970-01-01T01:00:00Z"), lambda: now[0]).login(OPERATE)
    again = Access(_token(), lambda: now[0])
    assert (_admits(again, cookie), _admits(again, short)) == (True, True), "a restart ends no login"
    now[0] = 3_601
    assert (_admits(again, cookie), _admits(again, short)) == (True, False)
    now[0] = 1_000 + 12 * 3600
    assert not _admits(again, cookie)


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.replace("oncall", "root"),
        lambda c: c.replace(c.split(":")[1], str(int(c.split(":")[1]) + 1)),
        lambda c: c[:-1] + ("0" if c[-1] != "0" else "1"),
        lambda c: c.rpartition(":")[0],
        lambda c: "",
        lambda c: "::",
        lambda c: f"oncall:{'9' * 5000}:x",
    ],
    ids=["another name", "longer", "another end", "unsigned", "empty", "only colons", "for ever"],
)
def test_a_cookie_that_was_changed_is_none(change: Any) -> None:
    access = Access(SETTINGS)
    assert not _admits(access, change(access.login(OPERATE)[1]))


def test_a_login_ends_with_its_token() -> None:
    _, cookie = Access(_token()).login(OPERATE)
    assert _admits(Access(_token()), cookie)
    assert not _admits(Access(_token(token="another-" + "x" * 16)), cookie)
    assert not _admits(Access(Settings.model_validate({"tokens": [{"name": "b", "token": OPERATE}]})), cookie)
    assert not _admits(Access(_token(expires="2020-01-01")), cookie)


@in_loop
async def test_logging_out_takes_the_cookie_away() -> None:
    response = await Api(SETTINGS).send("POST", "/logout", headers=HERE)
    assert response.status_code == 204
    assert f'{COOKIE}=""' in response.headers["set-cookie"]

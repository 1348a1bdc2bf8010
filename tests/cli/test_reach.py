"""A host that is away, refuses, is older, or is none: one sentence that says what to do, and exit code 1."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version

import pytest

from tests.cli.conftest import Spanfuse
from tests.support.api import ADMIN, EXPIRED, OPERATE, READ, SETTINGS, FakeAlerts
from tests.support.console import FakeConsole
from tests.support.fake_api import FakeApi
from tests.support.served import served

LOOKS = [
    ("status",), ("sessions",), ("sessions", "run-1"), ("breakers",), ("explain", "session:a"), ("agents",), ("benchmark",),
    ("insights", "a"), ("policy", "show"), ("budget", "list"), ("budget", "audit"), ("events",), ("tail",), ("alerts", "list"),
]  # fmt: skip
ORDERS = [
    ("reset", "session:run-00011"), ("budget", "extend", "user:u-1", "user/daily", "1"), ("policy", "set", "--clear"),
    ("policy", "dry-run", "-"), ("budget", "rebuild"), ("alerts", "test"), ("alerts", "ack", "a1"),
]  # fmt: skip
COMMANDS = [*LOOKS, *ORDERS]
POLICY = "mode: enforce"


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    """An API with tokens."""
    with served(FakeConsole(), SETTINGS, alerts=FakeAlerts()) as base:
        yield base


def problem(spanfuse: Spanfuse, *arguments: str, **env: str) -> str:
    """The one sentence."""
    ran = spanfuse(*arguments, input=POLICY, env=env)
    assert (ran.exit_code, ran.stdout) == (1, ""), ran.output
    (line,) = ran.stderr.splitlines()
    return line


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_one_that_is_away(spanfuse: Spanfuse, closed_port: int, command: tuple[str, ...]) -> None:
    said = problem(spanfuse, *command, "--api", f"http://127.0.0.1:{closed_port}")
    assert f"127.0.0.1:{closed_port} does not answer" in said
    assert "is `spanfuse up` or `spanfuse api` running there?" in said


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_one_that_wants_a_token(spanfuse: Spanfuse, guarded: str, command: tuple[str, ...]) -> None:
    said = problem(spanfuse, *command, "--api", guarded)
    assert said == f"spanfuse: the API at {guarded} needs a token: set SPANFUSE_API_TOKEN, or give --token"


@pytest.mark.parametrize(("token", "why"), [(EXPIRED, "has expired"), ("wrong-" + "w" * 16, "is not known")])
def test_one_that_does_not_take_the_token_which_is_not_shown(
    spanfuse: Spanfuse, guarded: str, token: str, why: str
) -> None:
    for given in ({"SPANFUSE_API_TOKEN": token}, {}):
        more = [] if given else ["--token", token]
        said = problem(spanfuse, "status", "--api", guarded, *more, **given)
        assert "refuses the token" in said
        assert why in said
        assert token not in said


@pytest.mark.parametrize("command", ORDERS, ids=" ".join)
def test_one_for_which_the_role_of_the_token_does_not_suffice(
    spanfuse: Spanfuse, guarded: str, command: tuple[str, ...]
) -> None:
    said = problem(spanfuse, *command, "--api", guarded, SPANFUSE_API_TOKEN=READ)
    assert "this needs the role " in said
    assert said.endswith("guard has read; use another token: SPANFUSE_API_TOKEN, or --token")


@pytest.mark.parametrize("command", [one for one in LOOKS if one[0] not in ("events", "tail")], ids=" ".join)
def test_a_token_that_suffices_is_all_that_is_needed(
    spanfuse: Spanfuse, guarded: str, command: tuple[str, ...]
) -> None:
    known = [{"run-1": "run-00001", "a": "research"}.get(word, word) for word in command]
    assert spanfuse(*known, "--api", guarded, env={"SPANFUSE_API_TOKEN": READ}).exit_code == 0


def test_an_order_is_given_with_the_name_of_the_token(spanfuse: Spanfuse) -> None:
    console = FakeConsole()
    with served(console, SETTINGS) as url:
        env = {"SPANFUSE_API_TOKEN": OPERATE}
        assert spanfuse("reset", "session:run-00011", "--api", url, env=env).exit_code == 0
        env = {"SPANFUSE_API_TOKEN": ADMIN}
        assert spanfuse("policy", "set", "-", "--api", url, env=env, input=POLICY).exit_code == 0
    ((key, actor),) = console.resets
    assert key == "session:run-00011"
    assert actor.endswith("(oncall)")


@pytest.mark.parametrize("token", ["line\nbreak-1234567", "ключ-1234567890123"])
def test_a_token_that_no_header_takes_is_not_sent_nor_shown(spanfuse: Spanfuse, guarded: str, token: str) -> None:
    said = problem(spanfuse, "status", "--api", guarded, SPANFUSE_API_TOKEN=token)
    assert said == "spanfuse: the token has characters that no header takes; is it whole?"


@pytest.mark.parametrize("command", [one for one in COMMANDS if one != ("policy", "show")], ids=" ".join)
def test_one_that_is_older(spanfuse: Spanfuse, command: tuple[str, ...]) -> None:
    """It has no such route, as routers say it."""
    with FakeApi({}, missing=(404, {"error": "Not Found"})) as old:
        said = problem(spanfuse, *command, "--api", old.url)
    assert f"the spanfuse at {old.url} is older than this command, {version('spanfuse')}: it has no /v1/" in said
    assert said.endswith("; upgrade it")


@pytest.mark.parametrize("status", [200, 302, 404, 500])
def test_one_that_is_something_else(spanfuse: Spanfuse, status: int) -> None:
    with FakeApi({}, missing=(status, b"<html>Welcome")) as other:
        said = problem(spanfuse, "agents", "--api", other.url)
    assert said == f"spanfuse: what answers at {other.url} is not the API of spanfuse; give its address: --api URL"


@pytest.mark.parametrize("body", [[], "text", 5, None, {"agents": 5}, {"agents": [{"agent": 5}]}, {"other": []}])
def test_one_that_answers_in_another_shape(spanfuse: Spanfuse, body: object) -> None:
    with FakeApi({("GET", "/v1/agents"): (200, body)}) as other:
        said = problem(spanfuse, "agents", "--api", other.url)
    assert "upgrade" in said


def test_one_whose_store_is_away(spanfuse: Spanfuse) -> None:
    console = FakeConsole()
    console.away = True
    with served(console) as url:
        said = problem(spanfuse, "agents", "--api", url)
    assert said == f"spanfuse: the API at {url} cannot do it now (the store of this test is away); try again in a while"


def test_what_it_says_can_do_nothing_to_a_terminal(spanfuse: Spanfuse) -> None:
    with FakeApi({}, missing=(409, {"error": "no\x1b[2J\nspanfuse: all is well"})) as evil:
        assert problem(spanfuse, "agents", "--api", evil.url).isprintable()

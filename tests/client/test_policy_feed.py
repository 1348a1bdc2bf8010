"""The policy in force comes by the way by which decisions come; one that cannot be read changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spanfuse import Guard
from spanfuse.testing import block, is_blocked
from spanfuse.tools.denied import ToolDenied
from spanfuse_schemas import Policy, PolicyNotice, ToolRule
from tests.client.sse_server import SseServer
from tests.client.waiting import wait_until


@pytest.fixture
def server() -> Iterator[SseServer]:
    with SseServer() as found:
        yield found


@pytest.fixture
def guard(server: SseServer) -> Iterator[Guard]:
    made = Guard(server.url)
    assert made.wait_ready(20)
    yield made
    made.close()


def notice(epoch: int, *rules: ToolRule) -> PolicyNotice:
    """A policy that is enforced."""
    return PolicyNotice(key="policy:*", epoch=epoch, issued_at_ns=1, policy=Policy(mode="enforce", tools=rules))


def permitted(guard: Guard) -> bool:
    """Whether a tool may be executed."""
    try:
        with guard.tool("bash"):
            return True
    except ToolDenied:
        return False


def publish(server: SseServer, data: str) -> None:
    server.send(server.event("policy", data))


def test_rules_change_as_soon_as_they_are_published(server: SseServer, guard: Guard) -> None:
    for epoch, rules in ((1, (ToolRule(tool="*", action="deny"),)), (2, ())):
        publish(server, notice(epoch, *rules).to_json().decode())
        wait_until(lambda rules=rules: permitted(guard) is not bool(rules))  # type: ignore[misc]


@pytest.mark.parametrize(
    "bad",
    [
        "no JSON",
        "{}",
        '{"key":"policy:*","epoch":2,"issued_at_ns":1,"policy":{"tools":[{"tool":"*","action":"allow","newer":1}]}}',
        '{"key":"policy:other","epoch":2,"issued_at_ns":1,"policy":{}}',
        '{"key":"policy:*","epoch":-2,"issued_at_ns":1,"policy":{}}',
    ],
    ids=["no JSON", "empty", "newer rules", "another key", "no epoch"],
)
def test_a_policy_that_cannot_be_read_is_counted_and_the_one_before_holds(
    server: SseServer, guard: Guard, bad: str
) -> None:
    publish(server, notice(1, ToolRule(tool="*", action="deny")).to_json().decode())
    wait_until(lambda: not permitted(guard))
    publish(server, bad)
    server.publish(block("session:run-1"))
    wait_until(lambda: is_blocked(guard, session="run-1"))
    assert not permitted(guard)
    assert guard._feed.subscriber.undecodable == 1  # type: ignore[attr-defined]


def test_fields_that_a_newer_server_adds_to_the_policy_are_passed_over(server: SseServer, guard: Guard) -> None:
    added = notice(1, ToolRule(tool="*", action="deny")).to_json().decode().replace('{"key"', '{"newer":1,"key"', 1)
    publish(server, added.replace('"policy":{', '"policy":{"newer":{},', 1))
    wait_until(lambda: not permitted(guard))

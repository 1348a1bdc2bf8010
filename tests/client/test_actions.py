"""What a Guard does beyond refusing: it cancels, it keeps deadlines, and it carries out rules on tools."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from spanfuse import Blocked
from spanfuse.testing import FakeGuard, MemorySubscriber, block, closed, is_blocked
from spanfuse.tools import Question, ToolPolicy
from spanfuse.tools.denied import ToolDenied
from spanfuse_schemas import Policy, PolicyNotice, ToolRule
from tests.client.waiting import wait_until


def notice(epoch: int, *rules: ToolRule, mode: Any = "enforce") -> PolicyNotice:
    """A policy of the operators."""
    return PolicyNotice(key="policy:*", epoch=epoch, issued_at_ns=epoch, policy=Policy(mode=mode, tools=rules))


def denied(guard: FakeGuard, tool: str = "bash", arguments: Any = None) -> str:
    """The rule by which a tool is refused; empty: it is executed."""
    try:
        with guard.tool(tool, arguments):
            return ""
    except ToolDenied as refusal:
        return refusal.rule


def test_a_session_that_is_cancelled_is_refused_and_its_work_in_progress_told() -> None:
    guard = FakeGuard()
    with guard.session("run-1", team="research"):
        token = guard.cancel_token()
        guard.cancel(reason="The user has left.")
        assert token.reason == "The user has left."
        refusal = is_blocked(guard)
        assert refusal is not None
        assert (refusal.rule, refusal.message) == ("cancelled", "The user has left.")
        with pytest.raises(Blocked), guard.call(model="m"):
            pass
        with pytest.raises(Blocked), guard.tool("search"):
            pass
    assert is_blocked(guard, session="run-2") is None


def test_a_reset_of_an_operator_ends_a_cancellation() -> None:
    guard = FakeGuard()
    guard.start()
    guard.cancel("run-1")
    guard.publish(closed("session:run-1"))
    assert is_blocked(guard, session="run-1") is None
    assert not guard.cancel_token("run-1").cancelled


def test_blocks_that_arrive_or_stood_before_cancel_tokens() -> None:
    """R123: one control stops a team, also what is in progress."""
    guard = FakeGuard(block("agent:planner"))
    guard.start()
    with guard.session("run-1", team="research"):
        token = guard.cancel_token()
    assert not token.cancelled
    guard.publish(block("team:research"))
    assert token.cancelled
    with guard.session("run-2", agent="planner"):
        assert guard.cancel_token().cancelled


def test_a_snapshot_after_an_outage_cancels_as_well() -> None:
    guard = FakeGuard()
    guard.start()
    token = guard.cancel_token("run-1")
    guard.subscriber._present["session:run-1"] = block("session:run-1")
    guard.subscriber.catch_up()
    assert token.cancelled


def test_a_cap_that_is_reached_cancels() -> None:
    guard = FakeGuard()
    with guard.session("run-1", max_steps=1):
        token = guard.cancel_token()
        with guard.call(model="m"):
            pass
        assert not token.cancelled
        with pytest.raises(Blocked), guard.call(model="m"):
            pass
    assert token.cancelled


def test_the_token_is_cancelled_at_the_deadline_of_its_session() -> None:
    async def main() -> None:
        guard = FakeGuard()
        with guard.session("run-1", deadline_s=0.05):
            assert "time of the session is up" in await asyncio.wait_for(guard.cancel_token().wait(), 20)
            with pytest.raises(Blocked) as refused:
                async with guard.call(model="m"):
                    pass
        assert refused.value.rule == "limits.max_duration_s"
        guard.close()

    asyncio.run(main())


def test_a_guard_that_only_observes_refuses_no_cancelled_session() -> None:
    guard = FakeGuard(mode="observe")
    guard.cancel("run-1")
    assert guard.check(session="run-1").would_block


def test_rules_on_tools_of_the_code_and_of_the_operators_both_hold() -> None:
    guard = FakeGuard(tools=ToolPolicy().deny("bash"))
    guard.start()
    assert denied(guard) == "tools.deny"
    guard.subscriber.govern(notice(1, ToolRule(tool="mail", action="deny")))
    assert [denied(guard, tool) for tool in ("bash", "mail", "search")] == ["tools.deny", "tools.deny", ""]
    guard.subscriber.govern(notice(2))
    assert [denied(guard, tool) for tool in ("bash", "mail")] == ["tools.deny", ""]


def test_a_policy_of_an_earlier_epoch_is_not_obeyed() -> None:
    guard = FakeGuard(mode=None)
    guard.start()
    guard.subscriber.govern(notice(5))
    guard.subscriber.govern(notice(4, ToolRule(tool="*", action="deny")))
    assert denied(guard) == ""


def test_a_policy_that_stands_is_known_before_the_guard_is_ready() -> None:
    subscriber = MemorySubscriber(ready=False)
    guard = FakeGuard()
    guard.subscriber = guard._feed.subscriber = subscriber
    guard.start()
    subscriber.govern(notice(1, ToolRule(tool="*", action="deny")))
    assert denied(guard) == ""
    subscriber.catch_up()
    assert guard.wait_ready(0)
    assert denied(guard) == "tools.deny"


def test_what_operators_only_observe_is_counted_and_executed() -> None:
    guard = FakeGuard(mode=None)
    guard.start()
    guard.subscriber.govern(notice(1, ToolRule(tool="bash", action="deny"), mode="observe"))
    assert denied(guard) == ""
    assert guard.counters.by_rule.get("tools.deny") == 1


def test_a_tool_is_asked_for_in_a_coroutine_without_holding_up_the_others() -> None:
    async def main() -> list[str]:
        order: list[str] = []
        asked, answered = asyncio.Event(), asyncio.Event()

        async def handler(question: Question) -> bool:
            order.append(f"asked for {question.tool}")
            asked.set()
            await answered.wait()
            return True

        guard = FakeGuard(tools=ToolPolicy(ask=handler).ask("mail"))

        async def work() -> None:
            async with guard.tool("mail", {"to": "bob"}):
                order.append("executed")

        task = asyncio.ensure_future(work())
        await asked.wait()
        order.append("others went on")
        answered.set()
        await task
        return order

    assert asyncio.run(main()) == ["asked for mail", "others went on", "executed"]


def test_a_tool_that_is_denied_is_counted_by_its_rule_and_its_session_goes_on() -> None:
    guard = FakeGuard(tools=ToolPolicy().deny("bash"))
    with guard.session("run-1"):
        assert denied(guard) == "tools.deny"
        guard.check()
    assert guard.counters.by_rule == {"tools.deny": 1}


def test_a_thousand_rules_cost_little() -> None:
    policy = ToolPolicy([ToolRule(tool=f"tool-{n}-*", action="deny") for n in range(1_000)])
    guard = FakeGuard(tools=policy)
    denied(guard, "other")
    begun = time.process_time()
    for _ in range(20):
        assert denied(guard, "other") == ""
    assert (time.process_time() - begun) / 20 < 0.05


def test_waiting_for_a_token_survives_a_guard_that_is_closed() -> None:
    guard = FakeGuard()
    with guard.session("run-1", deadline_s=3600):
        token = guard.cancel_token()
    guard.close()
    token.cancel("done")
    wait_until(lambda: token.cancelled)

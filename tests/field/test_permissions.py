"""Reports on permissions: what agents do once they are denied something, and what a rule on arguments has to tell apart."""

from __future__ import annotations

from typing import Any

import pytest

from spanfuse import Blocked, Guard
from spanfuse.testing import FakeGuard
from spanfuse.tools.denied import ToolDenied
from spanfuse.tools.policy import ToolPolicy


def executed(guard: Guard, tool: str, arguments: Any) -> str:
    """What a tool brings, or what the agent is told in place of it."""
    try:
        with guard.tool(tool, arguments) as call:
            return str(call.result("done"))
    except ToolDenied as refusal:
        return refusal.tool_result


def insist(guard: Guard) -> None:
    """An agent that asks for a shell whatever it is told."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "List the files."}]
    for n in range(10):
        wanted = {"id": f"c{n}", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
        reply = {"role": "assistant", "tool_calls": [wanted]}
        with guard.call(model="m", messages=messages) as call:
            call.answered({"choices": [{"message": reply}]})
        told = executed(guard, "bash", {"command": "ls"})
        messages += [reply, {"role": "tool", "tool_call_id": f"c{n}", "content": told}]


def test_r036_an_agent_that_asks_again_for_what_it_was_denied_is_stopped_for_good() -> None:
    """It is told at once and clearly; four times the same answer are a loop like any other."""
    policy = ToolPolicy().deny("bash", reason="There is no shell.")
    guard = Guard(local=True, tools=policy)
    with guard.session("r036-again"), pytest.raises(Blocked) as stopped:
        insist(guard)
    guard.close()
    assert len(policy.denials.kept()) == 3
    assert stopped.value.terminal
    assert stopped.value.rule.startswith("repeat.")


def test_r036_agents_that_spawn_others_to_get_around_a_denial_come_to_an_end() -> None:
    """Whoever spawns, it is one session: its fourth agent is the last, whatever each of them was denied."""
    policy = ToolPolicy().deny("bash").allow("spawn_agent", max_calls=3, reason="Three agents have to do.")
    guard, depth = FakeGuard(tools=policy), 0
    with guard.session("r036-spawn"):
        while True:
            with guard.session(agent=f"a{depth}"):
                assert "not permitted" in executed(guard, "bash", {"command": "ls"})
                if "not permitted" in executed(guard, "spawn_agent", {"name": f"a{depth + 1}"}):
                    break
            depth += 1
    assert depth == 3
    assert [(d.agent, d.rule) for d in policy.denials.kept()][-1] == ("a3", "tools.max_calls")
    assert guard.counters.by_rule == {"tools.deny": 4, "tools.max_calls": 1}


def test_r033_zero_false_empty_and_absent_are_told_apart() -> None:
    policy = ToolPolicy().deny("read", arguments={"offset": {"equals": 0}})
    guard = FakeGuard(tools=policy)
    found = {
        repr(arguments): "not permitted" in executed(guard, "read", arguments)
        for arguments in (
            {"offset": 0},
            {"offset": "0"},
            {"offset": False},
            {"offset": ""},
            {"offset": None},
            {},
            {"offset": 1},
        )
    }
    assert [arguments for arguments, denied in found.items() if denied] == ["{'offset': 0}", "{'offset': '0'}"]


def test_r031_the_order_of_fields_and_white_space_in_arguments_change_nothing() -> None:
    policy = ToolPolicy().deny("pay", arguments={"to": {"equals": "bob"}, "amount": {"above": 100}})
    guard = FakeGuard(tools=policy)
    for text in (
        '{"to":"bob","amount":101}',
        '{ "amount": 101,\n "to": "bob" }',
        '{"amount": 1.01e2, "to": "\\u0062ob"}',
    ):
        assert "not permitted" in executed(guard, "pay", text)
    assert len({denial.print[16:32] for denial in policy.denials.kept()}) == 1

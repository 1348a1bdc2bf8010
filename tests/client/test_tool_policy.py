"""Which calls of tools are let through."""

from __future__ import annotations

import copy
import json
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanfuse.blocked import Blocked
from spanfuse.context import Identity
from spanfuse.tools import Denial
from spanfuse.tools import denials as tool_denials
from spanfuse.tools import executions as tool_executions
from spanfuse.tools.denied import ToolDenied
from spanfuse.tools.policy import ToolPolicy
from spanfuse.tools.rules import STRICTNESS
from spanfuse_schemas import Policy, ToolRule

WHO = Identity("run-1", "planner", "ada", "research")
ACTIONS = st.sampled_from(["allow", "ask", "deny"])
RULES = st.lists(st.tuples(ACTIONS, st.sampled_from(["*", "a*", "ab", "b", "?"])), max_size=6)
TOOLS = st.sampled_from(["a", "ab", "b", "abc"])


def policy_of(rules: list[tuple[str, str]], default: Any = "allow", **settings: Any) -> ToolPolicy:
    """A policy with rules of action and tool."""
    return ToolPolicy([ToolRule(tool=tool, action=action) for action, tool in rules], default=default, **settings)


def denied(policy: ToolPolicy, tool: str, arguments: Any = None, **how: Any) -> ToolDenied | None:
    """The refusal of a call, None where it is let through."""
    try:
        policy.admit(tool, arguments, **{"who": WHO, **how})
    except ToolDenied as refusal:
        return refusal
    return None


def fails(arguments: Any) -> bool:
    """A condition that fails."""
    raise RuntimeError(f"cannot say {arguments}")


@given(RULES, ACTIONS, TOOLS)
def test_the_first_rule_that_holds_decides(rules: list[tuple[str, str]], default: str, tool: str) -> None:
    expected = next((action for action, pattern in rules if fnmatchcase(tool, pattern)), default)
    assert policy_of(rules, default).judge(tool, {}, WHO).action == expected


@given(RULES, ACTIONS, TOOLS, RULES, ACTIONS)
def test_rules_of_operators_never_grant_what_those_of_the_code_do_not_nor_the_other_way(
    rules: list[tuple[str, str]], default: Any, tool: str, central: list[tuple[str, str]], central_default: Any
) -> None:
    both, alone = policy_of(rules, default), policy_of(central, central_default)
    own = both.judge(tool, {}, WHO).action
    both.governed(
        Policy(
            mode="enforce",
            tools=tuple(ToolRule(tool=pattern, action=action) for action, pattern in central),
            tools_default=central_default,
        )
    )
    found = both.judge(tool, {}, WHO).action
    assert STRICTNESS[found] == max(STRICTNESS[own], STRICTNESS[alone.judge(tool, {}, WHO).action])


@given(RULES, ACTIONS, TOOLS, st.integers(0, 6))
def test_one_more_denial_never_grants_anything(rules: list[tuple[str, str]], default: str, tool: str, at: int) -> None:
    more = [*rules[:at], ("deny", "a*"), *rules[at:]]
    before, after = (policy_of(each, default).judge(tool, {}, WHO).action for each in (rules, more))
    assert STRICTNESS[after] >= STRICTNESS[before]


@given(RULES, ACTIONS, ACTIONS, TOOLS)
def test_a_rule_that_fails_denies_whatever_it_would_have_said(
    rules: list[tuple[str, str]], failing: Any, default: Any, tool: str
) -> None:
    policy = ToolPolicy(default=default, ask=lambda question: True)
    policy.add(failing, "*", when=fails)
    for action, pattern in rules:
        policy.add(action, pattern)  # type: ignore[arg-type]
    refusal = denied(policy, tool, {"secret": "hunter2"})
    assert refusal is not None
    assert refusal.rule == "tools.failed"
    assert "hunter2" not in str(refusal)


@pytest.mark.parametrize("action", ["allow", "ask", "deny"])
@pytest.mark.parametrize(
    ("matcher", "arguments"),
    [
        ({"amount": {"below": 5}}, {"amount": "much"}),
        ({"amount": {"above": 5}}, {"amount": float("nan")}),
        ({"amount": {"above": 5}}, {"amount": True}),
        ({"to": {"contains": "x"}}, {"to": {"nested": "x"}}),
        ({"to": {"contains": "x"}}, "no object"),
        ({"to.name": {"contains": "x"}}, {"to": "a text"}),
        ({"to": {"contains": "x"}}, '{"to": "x", "to": "y"}'),
        ({"to": {"contains": "x"}}, object()),
        ({"to": {"matches": "x"}}, {"to": "a" * 60_000}),
        ({"*": {"contains": "x"}}, [[]] * 20_000),
        ({"*": {"contains": "x"}}, {"to": b"x"}),
        ({"to": {"contains": "x"}}, '{"to": "' + "a" * 1_000_000 + '"}'),
    ],
    ids=range(12),
)
def test_arguments_that_a_rule_cannot_judge_are_denied(action: Any, matcher: dict[str, Any], arguments: Any) -> None:
    policy = ToolPolicy(ask=lambda question: True).add(action, "*", arguments=matcher)
    refusal = denied(policy, "pay", arguments)
    assert refusal is not None
    assert refusal.rule == "tools.failed"


@pytest.mark.parametrize(
    ("matcher", "met", "unmet"),
    [
        ({"equals": "a"}, "a", "A"),
        ({"equals": 5}, 5.0, 6),
        ({"equals": 5}, "5", "5.1"),
        ({"equals": True}, True, 1),
        ({"in": ["a", 2]}, 2, "b"),
        ({"contains": "rm -"}, "x; rm -rf", "rm"),
        ({"contains": "5"}, 1500, 1600),
        ({"starts_with": "/srv/"}, "/srv/x", "/etc/srv/"),
        ({"ends_with": ".py"}, "a.py", "a.pyc"),
        ({"matches": r"(?i)\bdrop\s+table\b"}, "DROP  TABLE x", "droptable"),
        ({"above": 100}, "100.5", 100),
        ({"below": 0}, -1, 0),
        ({"starts_with": "a", "ends_with": "z"}, "a-z", "a-y"),
        ({"contains": "x"}, ["y", "x"], ["y"]),
        ({"contains": "x"}, [["x"]], []),
    ],
    ids=range(15),
)
def test_what_each_operator_says(matcher: dict[str, Any], met: Any, unmet: Any) -> None:
    policy = ToolPolicy().deny("t", arguments={"field": matcher})
    assert denied(policy, "t", {"field": met})
    assert denied(policy, "t", json.dumps({"field": met}))
    assert not denied(policy, "t", {"field": unmet})
    assert not denied(policy, "t", {"other": met})
    assert not denied(policy, "t", {"field": None})


def test_a_list_is_denied_for_any_of_its_elements_and_allowed_for_all() -> None:
    denies = ToolPolicy().deny("read", arguments={"paths": {"starts_with": "/etc/"}})
    allows = ToolPolicy(default="deny").allow("read", arguments={"paths": {"starts_with": "/srv/"}})
    for policy in (denies, allows):
        assert denied(policy, "read", {"paths": ["/srv/a", "/etc/passwd"]})
        assert not denied(policy, "read", {"paths": ["/srv/a", "/srv/b"]})
    assert denied(allows, "read", {"paths": []})
    assert denied(allows, "read", {})
    assert denied(
        ToolPolicy(default="deny").allow("t", arguments={"to.id": {"below": 5}}), "t", {"to": [{"id": 1}, {}]}
    )


def test_paths_lead_into_objects_and_lists_and_anywhere() -> None:
    arguments = {"to": [{"mail": "a@x"}, {"mail": "b@y"}], "a.b": "dotted", "n": 7}
    for path, text in (("to.1.mail", "b@y"), ("to.mail", "a@x"), ("a.b", "dotted"), ("*", "b@y"), ("*", "7")):
        assert denied(ToolPolicy().deny("t", arguments={path: {"equals": text}}), "t", arguments), path
    for path in ("to.2.mail", "to.0.name", "a.c", "m"):
        assert not denied(ToolPolicy().deny("t", arguments={path: {"contains": "@"}}), "t", arguments), path


def test_a_tool_that_takes_one_text_is_judged_by_it() -> None:
    assert denied(ToolPolicy().deny("bash", arguments={"*": {"contains": "rm "}}), "bash", "rm -rf /")
    assert denied(ToolPolicy().deny("bash", when=lambda text: "rm " in text), "bash", "rm -rf /")


def test_a_rule_may_be_of_an_agent_or_a_team() -> None:
    policy = ToolPolicy().deny("*", agent="plan*").deny("pay", team="research")
    assert denied(policy, "x")
    assert denied(policy, "pay", who=Identity("s", "writer", team="research"))
    assert not denied(policy, "x", who=Identity("s", "writer", team="research"))
    assert not denied(policy, "pay", who=Identity("s"))


def test_conditions_see_the_arguments_as_an_object_and_have_to_answer_at_once() -> None:
    async def later(arguments: Any) -> bool:
        return False

    policy = ToolPolicy().deny("bash", when=lambda arguments: "rm " in arguments["command"])
    assert denied(policy, "bash", '{"command": "rm x"}')
    assert not denied(policy, "bash", '{"command": "ls"}')
    failed = denied(policy, "bash", '{"cmd": "ls"}')
    assert failed is not None
    assert failed.rule == "tools.failed"
    assert denied(ToolPolicy().deny("bash", when=later), "bash")


def test_as_many_calls_are_let_through_as_the_limit_says_however_many_come_at_once() -> None:
    policy, gate = ToolPolicy().allow("search", max_calls=37), threading.Barrier(8)

    def ask(_: int) -> int:
        gate.wait(10)
        return sum(not denied(policy, "search") for _ in range(20))

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(ask, range(8))) == 37
    refusal = denied(policy, "search")
    assert refusal is not None
    assert (refusal.rule, refusal.evidence.count) == ("tools.max_calls", 37)
    assert not denied(policy, "search", who=Identity("run-2"))


def test_a_call_that_is_not_permitted_is_not_counted() -> None:
    answers = iter([False, True, True])
    policy = ToolPolicy(ask=lambda question: next(answers)).ask("send", max_calls=1)
    assert [bool(denied(policy, "send")) for _ in range(3)] == [True, False, True]
    assert next(answers) is True  # the last was not asked for any more


def test_limits_of_operators_and_of_the_code_both_hold_and_outlive_a_reload() -> None:
    policy = ToolPolicy().allow("search", max_calls=5)
    rule = ToolRule(tool="s*", action="allow", max_calls=2)
    for _ in range(2):
        policy.governed(Policy(mode="enforce", tools=(rule, ToolRule(tool="x", action="deny"))))
        assert not denied(policy, "search")
    policy.governed(Policy(mode="enforce", tools=(rule,)))
    assert denied(policy, "search")
    policy.governed(Policy(mode="enforce"))
    assert [bool(denied(policy, "search")) for _ in range(4)] == [False, False, False, True]


def test_so_many_sessions_are_counted_and_the_oldest_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_executions, "MAX_SESSIONS", 3)
    policy = ToolPolicy().allow("*", max_calls=1)
    for session in "abcd":
        assert not denied(policy, "x", who=Identity(session))
    assert denied(policy, "x", who=Identity("d"))
    assert not denied(policy, "x", who=Identity("a"))


def test_rules_of_operators_that_only_observe_deny_nothing_and_tell_what_they_would() -> None:
    policy = ToolPolicy()
    policy.governed(Policy(mode="observe", tools=(ToolRule(tool="bash", action="deny", reason="no shells"),)))
    judged = policy.admit("bash", {}, WHO)
    assert judged.observed is not None
    assert judged.observed.reason == "no shells"
    (denial,) = policy.denials.kept()
    assert not denial.enforced
    assert denied(policy, "bash", mode="enforce")


def test_a_guard_that_only_observes_lets_everything_through() -> None:
    policy = ToolPolicy(default="deny")
    judged = policy.admit("bash", {}, WHO, "observe")
    assert (judged.action, judged.observed and judged.observed.rule) == ("allow", "tools.default")


def test_a_denial_refuses_the_tool_and_not_the_session_and_says_why_to_the_model() -> None:
    """R036: an agent that is told clearly, and at once, has no reason to look for another way."""
    refusal = denied(ToolPolicy().deny("bash", reason="Files are kept."), "bash", {"command": "rm -rf /"})
    assert isinstance(refusal, Blocked)
    assert not refusal.terminal
    assert not refusal.retryable
    assert (refusal.key, refusal.tool, refusal.rule, refusal.reason) == (
        "tool:bash",
        "bash",
        "tools.deny",
        "Files are kept.",
    )
    assert "not permitted: Files are kept. Do not try it again" in refusal.tool_result
    assert "rm -rf" not in str(refusal) + refusal.tool_result
    assert "The session goes on" in str(refusal)
    assert refusal.body(session="run-1")["error"] == "spanfuse_tool_denied"
    again = pickle.loads(pickle.dumps(refusal))
    assert (str(again), again.tool) == (str(refusal), "bash")
    assert str(copy.copy(refusal)) == str(refusal)


def test_the_list_of_denials_keeps_the_newest_and_no_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_denials, "MAX_DENIALS", 3)
    told: list[Denial] = []
    policy = ToolPolicy(on_denied=told.append).deny("*")
    for n in range(5):
        denied(policy, f"t{n}", {"command": "hunter2", "n": n})
    assert [denial.tool for denial in policy.denials.kept()] == ["t2", "t3", "t4"]
    assert (policy.denials.total, policy.denials.dropped, len(told)) == (5, 2, 5)
    assert told[0].fields == ("command", "n")
    assert (told[0].session, told[0].agent, told[0].user, told[0].team) == ("run-1", "planner", "ada", "research")
    assert "hunter2" not in repr(told)
    assert told[0].print != told[1].print


def test_arguments_are_kept_where_that_is_asked_for() -> None:
    policy = ToolPolicy(keep_arguments=True).deny("*")
    denied(policy, "t", '{"a": 1}')
    assert policy.denials.kept()[0].arguments == {"a": 1}


def test_a_callback_that_fails_is_counted_and_the_denial_stands() -> None:
    policy = ToolPolicy(on_denied=fails).deny("*")
    assert denied(policy, "t")
    assert policy.denials.failures == 1


@pytest.mark.parametrize(
    "rule", [{"action": "deny", "max_calls": 1}, {"action": "forbid"}, {"arguments": {"a": {}}}], ids=repr
)
def test_a_rule_that_cannot_be_meant_is_an_error_where_it_is_written(rule: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="ToolRule"):
        ToolPolicy().add(rule.pop("action", "allow"), "t", **rule)


def test_without_rules_nothing_is_read_and_nothing_is_refused() -> None:
    class Foreign:
        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError("do not touch")

    assert ToolPolicy().admit("t", Foreign(), WHO).action == "allow"


def test_a_name_that_cannot_be_told_is_denied() -> None:
    class Nameless:
        def __str__(self) -> str:
            raise RuntimeError("no name")

    refusal = denied(ToolPolicy().deny("x"), Nameless())  # type: ignore[arg-type]
    assert refusal is not None
    assert (refusal.rule, refusal.tool) == ("tools.failed", "Nameless")

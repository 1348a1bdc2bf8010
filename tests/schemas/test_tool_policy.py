"""Rules on tools as people write them, and as they travel."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from spanfuse_schemas import Decision, Matcher, Policy, PolicyNotice, ToolRule

RULE = ToolRule.model_validate(
    {
        "tool": "bash",
        "action": "deny",
        "agent": "research*",
        "arguments": {"command": {"matches": r"\brm\b"}, "retries": {"in": [1, "2"]}},
        "reason": "Files are kept.",
    }
)


def test_a_policy_with_rules_on_tools_comes_back_as_it_was_sent() -> None:
    notice = PolicyNotice(key="policy:*", epoch=7, issued_at_ns=1, policy=Policy(tools=(RULE,), tools_default="ask"))
    assert PolicyNotice.from_json(notice.to_json()) == notice
    assert b'"key":"policy:*"' in notice.to_json()


def test_readers_of_decisions_take_a_notice_for_something_that_they_cannot_read() -> None:
    """Guards of an earlier version count it, and go on."""
    with pytest.raises(ValidationError):
        Decision.from_json(PolicyNotice(key="policy:*", epoch=1, issued_at_ns=1, policy=Policy()).to_json())


def test_a_notice_is_no_reader_of_decisions() -> None:
    with pytest.raises(ValidationError):
        PolicyNotice.from_json(Decision(key="session:a", state="closed", issued_at_ns=1).to_json())


@pytest.mark.parametrize(
    "matcher", [{}, {"contains": ""}, {"matches": "("}, {"matches": r"(a)\1"}, {"cotains": "x"}], ids=repr
)
def test_a_matcher_that_says_nothing_or_cannot_be_used_is_an_error(matcher: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Matcher.model_validate(matcher)


@pytest.mark.parametrize(
    "rule",
    [
        {"tool": "", "action": "deny"},
        {"tool": "bash"},
        {"tool": "bash", "action": "forbid"},
        {"tool": "bash", "action": "deny", "max_calls": 3},
        {"tool": "bash", "action": "allow", "max_calls": -1},
        {"tool": "bash", "action": "deny", "argument": {}},
    ],
    ids=repr,
)
def test_a_rule_that_cannot_be_meant_is_an_error(rule: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ToolRule.model_validate(rule)


def test_values_to_be_equal_to_keep_their_kind() -> None:
    assert [type(Matcher(equals=value).equals) for value in (True, 1, 1.5, "1")] == [bool, int, float, str]
    assert Matcher.model_validate_json(Matcher(equals=False).model_dump_json(exclude_defaults=True)).equals is False

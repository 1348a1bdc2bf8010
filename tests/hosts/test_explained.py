"""An explanation of a key: its rules, and the budgets of all whose it is."""

from __future__ import annotations

import pytest

from spanfuse_processor.api.console import Explanation
from spanfuse_processor.config import Config
from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.scopes.stage import ScopeStage
from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.errors import QueryError
from spanfuse_processor.exporters.readmodel.model import SessionRow
from spanfuse_processor.hosts.explained import explained, related
from spanfuse_schemas import Charge

NOW_NS = 1_767_262_320 * 10**9
ROW = SessionRow(session="s", agent="research", user="u", team="red")
BUDGETS = {
    "user/daily": {"limit_usd": 5, "period": "daily"},
    "team/monthly": {"limit_usd": 100, "period": "monthly"},
    "agent/total": {"limit_usd": 50, "mode": "warn"},
    "global/daily": {"limit_steps": 1000, "period": "daily"},
    "session/total": {"limit_usd": 2},
}


def explanation(spent_usd: dict[str, float], key: str = "session:s") -> Explanation:
    policy = Config.model_validate({"budgets": BUDGETS, "service": {"mode": "enforce"}}).policy()
    stage, states = ScopeStage(policy), dict[str, ScopeState]()
    charges = [
        Charge(scope=scope, source="x", offset=1, cost_nano_usd=round(usd * 1e9), calls=7, at_ns=NOW_NS)
        for scope, usd in spent_usd.items()
    ]
    stage.process(charges, lambda scope: states.setdefault(scope, ScopeState(scope)))
    scopes = {scope: states.get(scope) for scope in related(key, ROW)}
    return explained(key, SessionState("s"), ROW, scopes, Pipeline(policy), stage, NOW_NS)


def test_every_scope_that_can_stop_a_call_is_told_with_its_limit_and_what_is_spent_and_the_one_that_does_first() -> (
    None
):
    """A field report: with several limits nobody could predict which one fires, nor see which one did."""
    found = explanation({"user:u": 6, "team:red": 6, "agent:research": 6, "global:*": 6})
    budgets = {view.rule: view for view in found.rules if view.rule.startswith("budget.")}
    assert {name: (view.counted, view.threshold, view.stands) for name, view in budgets.items()} == {
        "budget.user/daily": (6, 5, True),
        "budget.team/monthly": (6, 100, False),
        "budget.agent/total": (6, 50, False),
        "budget.global/daily": (7, 1000, False),
        "budget.session/total": (0, 2, False),
        "budget.session": (0, None, False),
    }
    assert found.rules[0].rule == "budget.user/daily"
    assert found.rules[0].why == "It holds back: user:u has spent 6 of 5 USD."
    assert [decision.key for decision in found.others] == ["user:u"]
    assert found.decision is None


def test_a_budget_that_nobody_named_for_this_user_is_named_by_its_own_name() -> None:
    """A field report: a block with no visible cause, since the limit stood on a default somewhere else."""
    found = explanation({"global:*": 1})
    assert "budget.global/daily" in {view.rule for view in found.rules}
    assert found.others == ()


def test_of_a_scope_its_own_rules_and_budgets_are_told() -> None:
    found = explanation({"agent:research": 60}, "agent:research")
    assert found.known
    assert {view.rule for view in found.rules} == {
        "agent.breaker", "retries", "adaptive", "coverage", "budget.agent/total",
    }  # fmt: skip
    (budget,) = [view for view in found.rules if view.rule == "budget.agent/total"]
    assert (budget.fired, budget.stands) == (True, False)
    assert budget.why == "agent:research has spent 60 of 50 USD: all is spent, and its mode is warn."
    assert not explanation({}, "user:nobody").known


@pytest.mark.parametrize("key", ["", "session", "session:", "model:gpt-4o", "s"])
def test_what_is_no_key_of_a_breaker_is_refused(key: str) -> None:
    with pytest.raises(QueryError, match="is no key"):
        related(key, None)

"""What is counted about a key, and why it did or did not trip: its own rules, and the budgets of all whose it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from spanfuse_processor.api.console import Explanation
from spanfuse_processor.core.explain import RuleView, explain, explain_scope, of_budget, ordered
from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.scopes.stage import ScopeStage
from spanfuse_processor.core.scopes.state import KINDS, ScopeState
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.errors import QueryError
from spanfuse_processor.exporters.readmodel.model import SessionRow
from spanfuse_processor.hosts.board import shown
from spanfuse_schemas import Decision
from spanfuse_schemas.detection import Mode

EXPLAINED: Final = ("session", *sorted(KINDS - {"model"}))
"""Kinds of keys that have a breaker."""


def related(key: str, row: SessionRow | None) -> list[str]:
    """The scopes whose state an explanation looks at.

    Raises:
        QueryError: this is no key.
    """
    kind, _, name = key.partition(":")
    if kind not in EXPLAINED or not name:
        raise QueryError(f"{key} is no key; write session:ID, agent:NAME, user:ID, team:NAME, trace:ID or global:*")
    if kind != "session":
        return [key]
    named = (("agent", row.agent), ("user", row.user), ("team", row.team)) if row is not None else ()
    return [*(f"{kind}:{name}" for kind, name in named if name), "global:*"]


def explained(
    key: str,
    session: SessionState | None,
    row: SessionRow | None,
    scopes: Mapping[str, ScopeState | None],
    pipeline: Pipeline,
    stage: ScopeStage,
    now_ns: int,
) -> Explanation:
    """The explanation of a key.

    Args:
        session: for a session: its state; none: it is not known.
        row: for a session: whose it is.
        scopes: the states of those in `related`.
    """
    standing = {name: _shown(state.standing, now_ns) for name, state in scopes.items() if state is not None}
    views = [view for name in scopes for view in _budgets(name, scopes[name], standing.get(name), stage, now_ns)]
    if not key.startswith("session:"):
        state = scopes[key]
        rules = explain_scope(state or ScopeState(key), stage.rules(*key.split(":", 1)))
        held = standing.get(key)
        return Explanation(key=key, known=state is not None, decision=held, rules=tuple(ordered([*rules, *views])))
    name = key.partition(":")[2]
    whose = pipeline.rules(row.agent if row is not None else "", row.team if row is not None else "")
    state_of = session or SessionState(name)
    views += [of_budget(r, _mode(pipeline, r["budget"]), state_of.decision) for r in _own(pipeline, state_of, now_ns)]
    return Explanation(
        key=key,
        known=session is not None,
        decision=_shown(state_of.decision, now_ns),
        others=tuple(decision for decision in standing.values() if decision is not None),
        rules=tuple(ordered([*explain(state_of, whose), *views])),
    )


def _own(pipeline: Pipeline, state: SessionState, now_ns: int) -> Iterable[dict[str, Any]]:
    """The accounts of a session's budgets; `budget.session` is among its rules already."""
    return (row for row in pipeline.accounts(state, now_ns) if row["budget"] != "session")


def _budgets(
    scope: str, state: ScopeState | None, held: Decision | None, stage: ScopeStage, now_ns: int
) -> list[RuleView]:
    modes = {budget.name: budget.mode for budget in stage.policy.budgets}
    return [of_budget(row, modes[row["budget"]], held) for row in stage.accounts(scope, state, now_ns)]


def _mode(pipeline: Pipeline, name: str) -> Mode:
    return next(budget.mode for budget in pipeline.policy.budgets if budget.name == name)


def _shown(decision: Decision | None, now_ns: int) -> Decision | None:
    return shown(decision, now_ns) if decision is not None else None

"""The second stage for `road.play`: what the charges of sessions add up to for agents, traces and teams."""

from __future__ import annotations

from spanfuse_processor.core.scopes.stage import ScopeStage
from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_schemas import Charge, Decision, Detection, Policy
from tests.support.agents import policy
from tests.support.road import Beyond


def scopes(rules: Policy | None = None) -> Beyond:
    """A stage of its own, to be given as `beyond`."""
    stage, states = ScopeStage(rules or policy()), dict[str, ScopeState]()

    def beyond(charges: list[Charge]) -> tuple[list[Detection], list[Decision]]:
        outcome = stage.process(charges, lambda key: states.setdefault(key, ScopeState(key)))
        return outcome.detections, outcome.decisions

    return beyond

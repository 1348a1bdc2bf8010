"""The refusal says all that a person or a program needs, and is not mistaken for a failure worth retrying."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime, timedelta

import pytest

from spanfuse import Blocked
from spanfuse.testing import block
from spanfuse_schemas import Evidence

UNTIL = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
REFUSAL = Blocked(
    block(
        "session:run-1",
        rule="cycle",
        message="The last 6 steps are 3 rounds of 2.",
        expires_at_ns=int(UNTIL.timestamp()) * 10**9,
        evidence=Evidence(
            count=6,
            value=3,
            threshold=3,
            unit="rounds",
            period=2,
            tool="search",
            cost_nano_usd=12_300_000,
            last_span_id="ab",
        ),
    )
)


def test_its_text_says_who_which_rule_the_evidence_until_when_and_how_to_release() -> None:
    assert str(REFUSAL) == (
        "session:run-1 is blocked by cycle: The last 6 steps are 3 rounds of 2. "
        "Evidence: count 6, 3 of 3 rounds, period 2, tool search, spent $0.0123, last span ab. "
        "Until 2026-01-02 03:04:05 UTC, then one probe. To release it now: spanfuse reset session:run-1."
    )


def test_a_block_without_an_end_says_so() -> None:
    refusal = Blocked(block("team:t", rule="", message=""))
    assert refusal.until is None
    assert str(refusal).startswith("team:t is blocked by an unnamed rule. ")
    assert "Until it is reset." in str(refusal)


def test_it_tells_how_many_probes_there_will_be() -> None:
    several = block("session:s", for_s=60).model_copy(update={"probes": 3})
    assert "UTC, then 3 probes. To release it now" in str(Blocked(several))


def test_a_budgets_block_ends_with_its_period_and_promises_no_probe() -> None:
    end_ns = int(UNTIL.timestamp()) * 10**9
    refusal = Blocked(block("user:u", rule="budget.user/daily", message="", expires_at_ns=end_ns, lapses=True))
    assert "Until 2026-01-02 03:04:05 UTC. To release it now: spanfuse reset user:u." in str(refusal)


def test_its_fields_are_stable() -> None:
    fields = ("code", "key", "scope", "rule", "message", "evidence", "until", "decision")
    found = {name: getattr(REFUSAL, name) for name in fields}
    assert found["code"] == "spanfuse_blocked"
    assert (found["key"], found["scope"], found["rule"]) == ("session:run-1", "session", "cycle")
    assert found["until"] == UNTIL
    assert found["evidence"].tool == "search"


def test_it_is_an_exception_and_nothing_that_retry_helpers_repeat() -> None:
    assert Blocked.__bases__ == (Exception,)
    assert not issubclass(Blocked, (OSError, RuntimeError, ValueError))
    assert REFUSAL.retryable is False
    assert REFUSAL.status_code not in {408, 409, 425, 429}
    assert REFUSAL.status_code < 500


@pytest.mark.parametrize("how", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy])
def test_it_crosses_process_borders_whole(how: object) -> None:
    again = how(REFUSAL)  # type: ignore[operator]
    assert isinstance(again, Blocked)
    assert str(again) == str(REFUSAL)
    assert again.decision == REFUSAL.decision


def test_an_end_beyond_the_calendar_is_still_an_end() -> None:
    assert Blocked(block("session:s", expires_at_ns=2**70)).until == datetime.max.replace(tzinfo=UTC)


def test_its_body_tells_an_agent_on_the_wire_why_and_until_when() -> None:
    body = REFUSAL.body(agent="planner", now=UNTIL - timedelta(seconds=286.5))
    assert body == {
        "error": "spanfuse_circuit_open",
        "agent_id": "planner",
        "session_id": "run-1",
        "key": "session:run-1",
        "rule": "cycle",
        "state": "open",
        "reason": "The last 6 steps are 3 rounds of 2.",
        "open_until": "2026-01-02T03:04:05Z",
        "cooldown_remaining_sec": 287,
        "message": str(REFUSAL),
    }


def test_the_body_of_a_block_whose_end_has_passed_says_that_a_probe_is_under_way() -> None:
    body = REFUSAL.body(now=UNTIL + timedelta(seconds=1))
    assert (body["state"], body["cooldown_remaining_sec"]) == ("half_open", 0)


def test_the_body_of_a_block_without_an_end_says_null() -> None:
    body = Blocked(block("agent:a", rule="limits.max_steps")).body()
    assert (body["open_until"], body["cooldown_remaining_sec"]) == (None, None)
    assert (body["agent_id"], body["session_id"]) == ("a", None)


def test_the_body_of_a_budget_says_what_was_spent_of_what() -> None:
    spent = Evidence(value=24.87, threshold=25, unit="USD")
    body = Blocked(block("agent:email", rule="budget.agent/monthly", evidence=spent)).body()
    assert body["error"] == "spanfuse_budget_exceeded"
    assert (body["spent"], body["limit"], body["unit"]) == (24.87, 25, "USD")

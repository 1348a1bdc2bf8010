"""context.*: how full the model's context window is, in three tiers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from pydantic import ValidationError

from spanfuse_processor.core.pricing import context_window
from spanfuse_schemas import Call, Policy
from spanfuse_schemas.pace_rules import Context
from tests.support.agents import play, policy
from tests.support.pace import call, told

MODEL: dict[str, Any] = {"provider": "anthropic", "model": "claude-sonnet-4-5"}


def tiers(calls: Iterable[Call], rules: Policy | None = None) -> list[str]:
    return [d.rule for d in told(calls, rules or policy(breaker={"cooldown_s": 1}), by="context")]


def filling(*inputs: int, **fields: Any) -> list[Call]:
    return [call(60 * i, **{"input": size, **MODEL, **fields}) for i, size in enumerate(inputs)]


def test_the_window_of_a_model_comes_from_the_bundled_table() -> None:
    assert context_window("anthropic", "claude-sonnet-4-5") == 200_000
    assert context_window("openai", "gpt-4o") == 128_000
    assert context_window("", "gpt-4o") == 128_000
    assert context_window("openai", "a-model-nobody-knows") == 0
    assert context_window("", "") == 0


@pytest.mark.parametrize(("tier", "at"), [("warning", 140_000), ("error", 170_000), ("blocking", 190_000)])
def test_each_tier_begins_at_its_share_of_the_window(tier: str, at: int) -> None:
    assert tiers(filling(at))[-1] == f"context.{tier}"
    assert f"context.{tier}" not in tiers(filling(at - 1))


def test_a_tier_is_told_once_with_its_numbers() -> None:
    found = told(filling(140_000, 150_000, 160_000, 175_000, 180_000), by="context")
    assert [d.rule for d in found] == ["context.warning", "context.error"]
    assert [d.call for d in found] == [0, 3]
    assert (found[1].evidence.value, found[1].evidence.threshold, found[1].evidence.unit) == (
        175_000,
        170_000,
        "tokens",
    )
    assert {d.action for d in found} == {"warn"}
    assert "175,000 of the 200,000" in found[1].message


def test_after_a_compaction_the_tiers_are_told_anew() -> None:
    assert tiers(filling(175_000, 20_000, 145_000, 175_000)) == ["context.error", "context.warning", "context.error"]


def test_a_shorter_answer_is_no_compaction() -> None:
    """Told again only after the input has fallen under four fifths of the tier, which is 112,000 for the first."""
    assert tiers(filling(140_000, 112_000, 140_000)) == ["context.warning"]
    assert tiers(filling(140_000, 111_999, 140_000)) == ["context.warning"] * 2


def test_agents_of_a_session_have_contexts_of_their_own() -> None:
    calls = [call(60 * i, input=150_000 if i % 2 else 1000, agent="ab"[i % 2], **MODEL) for i in range(8)]
    assert tiers(calls) == ["context.warning"]
    assert tiers(call(i, input=150_000, agent="ab"[i % 2], **MODEL) for i in range(8)) == ["context.warning"]


def test_an_unknown_model_is_passed_over() -> None:
    assert not tiers(filling(900_000, model="in-house-7b", provider="vllm"))


def test_a_model_that_took_more_than_its_window_has_another_one() -> None:
    assert tiers(filling(200_000)) == ["context.blocking"]
    assert not tiers(filling(200_001, 400_000))


def test_a_window_can_be_set_by_model_and_comes_first() -> None:
    rules = policy(context={"windows": {"in-house-*": 1000, "claude-*": 400_000}})
    assert tiers(filling(700, model="in-house-7b"), rules) == ["context.warning"]
    assert tiers(filling(2000, model="in-house-7b"), rules) == ["context.blocking"]
    assert not tiers(filling(279_999), rules)
    assert tiers(filling(280_000), rules) == ["context.warning"]
    assert tiers(filling(140_000), policy(context={"windows": {"other": 5}})) == ["context.warning"]


def test_in_block_mode_only_the_last_tier_blocks() -> None:
    rules = policy(context={"mode": "block"})
    run = play(filling(150_000, 175_000, 189_999, 150_000), rules)
    assert run.blocked_at is None
    assert [(d.rule, d.action) for d in run.detections] == [("context.warning", "warn"), ("context.error", "warn")]
    run = play(filling(190_000, 150_000), rules)
    assert (run.blocked_at, run.rule) == (1, "context.blocking")


def test_a_probe_with_a_compacted_context_closes_the_breaker_and_a_full_one_does_not() -> None:
    rules = policy(context={"mode": "block"}, breaker={"cooldown_s": 10})
    full = play(filling(190_000, 195_000), rules)
    assert [d.state for d in full.decisions] == ["open", "open"]
    assert [d.state for d in play(filling(190_000, 30_000), rules).decisions] == ["open", "closed"]


def test_nudges_go_with_every_tier_in_that_mode() -> None:
    run = play(filling(150_000, 175_000), policy(context={"mode": "nudge"}))
    assert [d.action for d in run.detections] == ["nudge", "nudge"]


def test_the_tiers_have_to_be_in_order() -> None:
    with pytest.raises(ValidationError, match="must grow"):
        Context(warning_at=0.9, error_at=0.85)
    with pytest.raises(ValidationError, match="at least one token"):
        Context(windows={"m": 0})


def test_the_agents_remembered_are_few() -> None:
    run = play([call(i, input=150_000, agent=f"a{i}", **MODEL) for i in range(50)])
    assert run.session.context is not None
    assert len(run.session.context.told) == 8


def test_nothing_is_kept_while_there_is_room() -> None:
    assert play(filling(139_999)).session.context is None
    assert play(filling(150_000, 1000)).session.context is None

"""errors: provider failures open the breaker; those of one fan-out are one."""

from __future__ import annotations

from spanfuse_schemas import Call
from tests.support.agents import failure, play, policy, prompt

PARENT = "b" * 16


def fan_out(count: int, *, at: float, parent: str = PARENT, lasts: float = 1) -> list[Call]:
    return [failure(at=at, lasts=lasts + i * 0.01, parent_span_id=parent) for i in range(count)]


def test_five_within_a_minute_open_it_and_four_do_not() -> None:
    assert play(failure(at=i) for i in range(6)).blocked_at == 5
    assert play([*(failure(at=i) for i in range(4)), prompt("hello", at=5)]).quiet


def test_the_window_ends_after_a_minute() -> None:
    assert play([*(failure(at=i, lasts=0.0) for i in range(4)), failure(at=59.9, lasts=0.0)]).decisions
    assert not play([*(failure(at=i, lasts=0.0) for i in range(4)), failure(at=60, lasts=0.0)]).decisions


def test_r021_refusals_with_growing_gaps_and_then_an_answer_are_patience() -> None:
    """Four in 11 s, then an answer; forty in 10 s are a storm."""
    assert play([*(failure(at=t) for t in (0, 1, 4, 11)), prompt("hello", at=26)]).quiet
    assert play(failure(at=i * 0.25) for i in range(40)).blocked_at == 5


def test_r043_nested_retries_of_one_prompt_under_one_parent_are_a_storm() -> None:
    """Forty-five in 30 s, one after the other, whether or not they overlap a little."""
    for lasts in (0.05, 0.6, 1.0):
        run = play(failure(at=i * 30 / 45, lasts=lasts, text="the same", parent_span_id=PARENT) for i in range(45))
        assert run.rule == "errors"
        assert run.blocked_at is not None
        assert run.blocked_at <= 10


def test_a_fan_out_that_meets_a_rate_limit_fails_once() -> None:
    """Eight calls in flight together fail together, and again after a pause; then the provider answers."""
    calls = [*fan_out(8, at=0), *fan_out(8, at=5), *fan_out(8, at=15), *fan_out(8, at=40)]
    assert play([*calls, prompt("hello", at=50)]).quiet
    assert play([*calls, *fan_out(8, at=45)]).rules == ["errors"]


def test_siblings_that_touch_follow_one_another() -> None:
    assert play(failure(at=i, lasts=1, parent_span_id=PARENT) for i in range(5)).rules == ["errors"]


def test_siblings_of_other_parents_are_other_failures() -> None:
    assert play([f for p in range(5) for f in fan_out(1, at=0, parent=f"{p + 1:016x}")]).rules == ["errors"]


def test_calls_without_a_parent_are_each_a_failure() -> None:
    assert play(fan_out(5, at=0, parent="")).rules == ["errors"]


def test_the_count_and_the_window_are_settings() -> None:
    rules = policy(errors={"count": 3, "window_s": 10})
    assert play((failure(at=i * 4, lasts=0.0) for i in range(3)), rules).decisions
    assert play((failure(at=i * 5, lasts=0.0) for i in range(3)), rules).quiet
    assert play((failure(at=i) for i in range(2)), rules).quiet

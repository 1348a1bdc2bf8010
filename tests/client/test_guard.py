"""What a Guard answers, and what it never does."""

from __future__ import annotations

import enum
import logging
import threading
import uuid
from typing import Any

import pytest

from spanfuse import Blocked, Guard, Verdict, session
from spanfuse.decisions.verdict import ALLOWED
from spanfuse.reading.messages import new_input, read_messages
from spanfuse.testing import FakeClock, MemorySubscriber, block, closed, is_blocked, nudge
from spanfuse_schemas import LoopPrint
from tests.support.effort import growth, seconds


def guard_with(*decisions: Any, mode: Any = "enforce", **settings: Any) -> tuple[Guard, MemorySubscriber]:
    subscriber = MemorySubscriber(*decisions)
    guard = Guard(subscriber, mode=mode, **settings)
    guard.start()
    return guard, subscriber


def loop_of(text: str) -> tuple[LoopPrint, ...]:
    found = new_input(prompt=text)
    assert found is not None
    return (LoopPrint(canon=found.canon, near=found.near),)


def test_a_call_to_which_nothing_applies_gets_the_one_shared_verdict() -> None:
    guard, _ = guard_with(block("session:other"))
    assert guard.check(session="run-1", agent="a", user="u", team="t", trace="f" * 32) is ALLOWED


@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("session:x", {"session": "x"}),
        ("trace:x", {"trace": "x"}),
        ("agent:x", {"agent": "x"}),
        ("user:x", {"user": "x"}),
        ("team:x", {"team": "x"}),
        ("session:trace:x", {"trace": "x"}),
        ("session:a:b", {"session": "a:b"}),
        ("global:*", {}),
    ],
)
def test_a_block_of_any_scope_refuses_the_calls_of_that_key_only(key: str, names: dict[str, str]) -> None:
    guard, _ = guard_with(block(key))
    refusal = is_blocked(guard, **names)
    assert refusal is not None
    assert refusal.key == key
    if names:
        assert is_blocked(guard, **dict.fromkeys(names, "someone else")) is None
        with session(**names):
            assert is_blocked(guard) is not None


def test_every_call_after_the_block_is_refused_before_the_network() -> None:
    """An orchestrator that ignores its own stop conditions makes three more calls: none leaves the process."""
    guard, subscriber = guard_with()
    sent = []

    def model_call(n: int) -> None:
        guard.check(session="s")
        sent.append(n)

    model_call(0)
    subscriber.publish(block("session:s"))
    for n in (1, 2, 3):
        with pytest.raises(Blocked):
            model_call(n)
    assert sent == [0]


def test_asking_changes_nothing() -> None:
    guard, _ = guard_with(block("session:s", loop=loop_of("again")), nudge("agent:a"))
    before = guard.decisions()
    for _ in range(5):
        guard.check(session="s", agent="a", prompt="something else")
    assert guard.decisions() == before
    assert guard.check(session="s", agent="a", prompt="something else").nudge == "Try something else."


def test_closing_a_key_lets_its_calls_pass_again() -> None:
    guard, subscriber = guard_with(block("session:s"))
    assert is_blocked(guard, session="s")
    subscriber.publish(closed("session:s"))
    assert guard.check(session="s") is ALLOWED


def test_a_tombstone_lets_calls_pass_again_and_the_key_may_start_at_epoch_one() -> None:
    guard, subscriber = guard_with(block("session:s", epoch=7))
    subscriber.forget("session:s")
    assert is_blocked(guard, session="s") is None
    subscriber.publish(block("session:s", epoch=1))
    assert is_blocked(guard, session="s") is not None


def test_a_late_older_epoch_changes_nothing() -> None:
    guard, subscriber = guard_with()
    subscriber.publish(block("session:s", epoch=3), closed("session:s", epoch=4), block("session:s", epoch=3))
    assert guard.check(session="s") is ALLOWED


def test_the_narrowest_scope_is_named_and_an_enforced_block_beats_an_observed_one() -> None:
    guard, _ = guard_with(block("team:t"), block("session:s", mode="observe"), block("agent:a"), mode=None)
    refusal = is_blocked(guard, session="s", agent="a", team="t")
    assert refusal is not None
    assert refusal.key == "agent:a"


class TestModes:
    def test_by_default_each_decision_says_whether_it_is_enforced(self) -> None:
        guard, _ = guard_with(block("session:seen", mode="observe"), block("session:held"), mode=None)
        assert guard.check(session="seen").would_block
        assert is_blocked(guard, session="held")

    def test_observe_never_raises_and_counts_what_it_would_have_refused(self) -> None:
        guard, _ = guard_with(block("session:s", rule="cycle"), mode="observe")
        verdict = guard.check(session="s")
        assert verdict.allowed
        assert verdict.would_block
        assert verdict.decision is not None
        assert (guard.counters.would_block, guard.counters.blocked) == (1, 0)
        assert guard.counters.by_rule == {"cycle": 1}

    def test_enforce_refuses_whatever_the_decision_says(self) -> None:
        guard, _ = guard_with(block("session:s", mode="observe"), mode="enforce")
        assert is_blocked(guard, session="s")

    def test_the_environment_sets_the_mode_where_the_program_does_not(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SPANFUSE_MODE", "observe")
        assert guard_with(block("session:s"), mode=None)[0].check(session="s").would_block
        assert is_blocked(guard_with(block("session:s"), mode="enforce")[0], session="s")

    def test_a_mistyped_environment_is_said_and_ignored(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setenv("SPANFUSE_MODE", "enforced")
        assert guard_with(mode=None)[0].mode is None
        assert "SPANFUSE_MODE" in caplog.text

    def test_a_mistyped_mode_is_an_error_at_once(self) -> None:
        with pytest.raises(ValueError, match="mode is"):
            Guard(MemorySubscriber(), mode="block")  # type: ignore[arg-type]

    def test_disabled_lets_everything_pass_and_starts_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SPANFUSE_DISABLED", "1")
        guard, subscriber = guard_with(block("global:*"), on_unavailable="closed")
        assert guard.check(session="s") is ALLOWED
        assert guard.wait_ready(0)
        assert (guard.state, subscriber.state) == ("disabled", "new")


class TestNudge:
    def test_a_nudge_is_text_and_the_same_on_every_check(self) -> None:
        guard, _ = guard_with(nudge("session:s", "Read the file only once."))
        first, second = guard.check(session="s"), guard.check(session="s")
        assert first.nudge == second.nudge == "Read the file only once."
        assert first.allowed
        assert not first.would_block
        assert guard.counters.nudged == 2

    def test_a_nudge_of_one_key_and_an_observed_block_of_another_come_together(self) -> None:
        guard, _ = guard_with(nudge("session:s", "Stop."), block("team:t"), mode="observe")
        verdict = guard.check(session="s", team="t")
        assert (verdict.nudge, verdict.would_block) == ("Stop.", True)

    def test_an_expired_nudge_is_silent(self) -> None:
        clock = FakeClock()
        decision = nudge("session:s").model_copy(update={"expires_at_ns": clock.now_ns() + 10**9})
        guard, _ = guard_with(decision, now_ns=clock.now_ns)
        assert guard.check(session="s").nudge
        clock.advance(1)
        assert guard.check(session="s") is ALLOWED


class TestLoopScope:
    def test_a_call_that_leaves_the_loop_passes(self) -> None:
        guard, _ = guard_with(block("session:s", loop=loop_of("What is the weather in Tokyo?")))
        assert is_blocked(guard, session="s", prompt="What is the weather in Tokyo?")
        assert is_blocked(guard, session="s", prompt="Summarise what you have.") is None

    def test_a_call_that_shows_nothing_counts_as_the_loop(self) -> None:
        guard, _ = guard_with(block("session:s", loop=loop_of("again")))
        assert is_blocked(guard, session="s")
        assert is_blocked(guard, session="s", messages=[])

    def test_a_conditional_block_never_refuses_a_call_that_shows_nothing(self) -> None:
        guard, _ = guard_with(block("session:s", loop=loop_of("again"), conditional=True))
        assert guard.check(session="s") is ALLOWED
        assert guard.check(session="s", messages=[]) is ALLOWED
        assert guard.check(session="s", prompt="other") is ALLOWED
        assert is_blocked(guard, session="s", messages=[{"role": "user", "content": "again"}])

    def test_only_what_is_new_after_the_last_assistant_message_counts(self) -> None:
        guard, _ = guard_with(block("session:s", loop=loop_of("again")))
        history = [{"role": "user", "content": "first"}, {"role": "assistant", "content": "done"}]
        assert is_blocked(guard, session="s", messages=[*history, {"role": "user", "content": "again"}])
        assert is_blocked(guard, session="s", messages=[*history, {"role": "user", "content": "next"}]) is None

    def test_a_loop_may_be_known_by_the_action_that_the_input_answers(self) -> None:
        """Polling with results that differ: the same tool call again is the loop, whatever it brought."""
        history = [
            {"role": "user", "content": "Is it done?"},
            {
                "role": "assistant",
                "tool_calls": [
                    {"id": "1", "type": "function", "function": {"name": "poll", "arguments": '{"job": 7}'}}
                ],
            },
        ]
        answers = read_messages(history).answers
        assert answers is not None
        guard, _ = guard_with(block("session:s", loop=(LoopPrint(action=answers.canon),)))
        result = {"role": "tool", "tool_call_id": "1", "content": "not yet, 40 %"}
        left = [{"role": "assistant", "content": "Later."}, {"role": "user", "content": "Fine."}]
        assert is_blocked(guard, session="s", messages=[*history, result])
        assert is_blocked(guard, session="s", messages=[*history, result, *left]) is None

    def test_an_iterator_of_messages_is_left_to_its_owner(self) -> None:
        guard, _ = guard_with(block("session:s", loop=loop_of("again"), conditional=True))
        messages = iter([{"role": "user", "content": "again"}])
        assert guard.check(session="s", messages=messages) is ALLOWED
        assert len(list(messages)) == 1

    def test_a_text_in_place_of_messages_is_a_prompt(self) -> None:
        guard, _ = guard_with(block("session:s", loop=loop_of("again"), conditional=True))
        assert is_blocked(guard, session="s", messages="again")

    def test_messages_are_not_read_while_no_loop_is_open(self) -> None:
        class Unreadable:
            def __getattribute__(self, name: str) -> Any:
                raise AssertionError("was read")

        guard, _ = guard_with(block("session:other", loop=loop_of("again")))
        assert guard.check(session="s", messages=Unreadable()) is ALLOWED
        assert guard.counters.errors == 0


class Odd:
    """An id that cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "given",
    [
        {"session": 42},
        {"session": ["un", "hashable"]},
        {"session": Odd()},
        {"session": ""},
        {"agent": Odd()},
        {"team": b"\xff"},
        {"trace": object()},
        {"messages": 5},
        {"messages": "text"},
        {"messages": [None, 1, object()]},
        {"messages": [{"role": 7, "content": {"a": float("nan")}}]},
        {"prompt": object()},
        {"prompt": "\ud800"},
    ],
)
def test_no_argument_makes_a_check_raise(given: dict[str, Any]) -> None:
    """A Guard that fails must not stop its host: the call passes and the failure is counted."""
    guard, _ = guard_with(block("global:*", loop=loop_of("again"), conditional=True))
    with session(**{k: v for k, v in given.items() if k not in ("messages", "prompt")}):
        assert isinstance(guard.check(), Verdict)
    assert isinstance(guard.check(**given), Verdict)


def test_ids_that_are_no_text_are_compared_as_text() -> None:
    run = uuid.uuid4()
    guard, _ = guard_with(block(f"session:{run}"), block("user:42"))
    assert is_blocked(guard, session=run)
    assert is_blocked(guard, user=42)
    with session(run):
        assert is_blocked(guard)


def test_an_enumeration_of_texts_is_its_value_and_an_empty_id_is_none() -> None:
    class Agents(str, enum.Enum):  # noqa: UP042  The form that prints as Agents.PLANNER.
        PLANNER = "planner"

    guard, _ = guard_with(block("agent:planner"))
    assert is_blocked(guard, agent=Agents.PLANNER)
    with session("s", agent=Agents.PLANNER):
        assert is_blocked(guard, agent="")


def test_a_hundred_guarded_calls_add_less_than_five_milliseconds_of_work() -> None:
    """However many blocks of others there are."""
    guard, _ = guard_with(*(block(f"session:{i}") for i in range(1000)))

    @guard.protect
    def call() -> None:
        """Nothing."""

    def calls(n: int) -> None:
        for _ in range(n):
            call()

    assert seconds(lambda: calls(100), rounds=10) < 0.005
    assert growth(calls, 1000) < 40


def test_a_failing_guard_says_so_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    guard, _ = guard_with()
    monkeypatch.setattr("spanfuse.context.trace_source", lambda: 1 / 0)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert guard.check() is ALLOWED
    assert guard.counters.errors == 3
    assert len(caplog.records) == 1


def test_a_retry_storm_against_a_block_costs_a_fixed_few_numbers() -> None:
    """A framework that swallows the refusal and retries 1,000 times gets 1,000 refusals, and nothing else grows."""
    guard, _ = guard_with(block("session:s"))
    refusals = 0
    for _ in range(1000):
        try:
            guard.check(session="s")
        except Exception as error:
            refusals += isinstance(error, Blocked)
    assert refusals == 1000
    assert guard.counters.blocked == 1000
    assert guard.counters.by_rule == {"repeat.no_progress": 1000}
    assert len(guard.decisions()) == 1


def test_counters_lose_nothing_under_threads() -> None:
    guard, _ = guard_with(block("session:s"))

    def ask() -> None:
        for _ in range(500):
            guard.check(session="free")
            is_blocked(guard, session="s")

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = guard.counters
    assert (counts.checks, counts.allowed, counts.blocked) == (8000, 4000, 4000)
    assert guard.counters.checks == 8000


def test_a_check_starts_the_guard_and_closing_keeps_what_is_known() -> None:
    subscriber = MemorySubscriber(block("session:s"))
    guard = Guard(subscriber, mode="enforce")
    states = [guard.state]
    assert is_blocked(guard, session="s")
    states.append(guard.state)
    guard.close()
    states.append(guard.state)
    assert is_blocked(guard, session="s")
    assert subscriber.state == "closed"
    guard.start()
    assert [*states, guard.state] == ["new", "ready", "closed", "ready"]


def test_a_guard_is_a_context_manager_that_can_be_waited_for() -> None:
    with Guard(MemorySubscriber(ready=False)) as guard:
        assert not guard.wait_ready(0.01)
        guard._feed.subscriber.catch_up()  # type: ignore[attr-defined]
        assert guard.wait_ready(0)
    assert guard.state == "closed"


def test_an_address_that_is_none_is_an_error_at_once() -> None:
    with pytest.raises(ValueError, match="address"):
        Guard("ftp://somewhere")

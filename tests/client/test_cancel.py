"""Work in progress learns that its session is stopped, wherever that was decided."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from spanfuse import Guard
from spanfuse.blocked import Blocked
from spanfuse.context import Identity
from spanfuse.steering import alarms, cancel
from spanfuse.steering.cancel import MAX_SESSIONS, Cancels, CancelToken
from spanfuse.testing import MemorySubscriber, block, closed, nudge
from spanfuse_schemas import LoopPrint
from tests.client.waiting import wait_until

WHO = Identity("run-1", "planner", "ada", "research", "f" * 32)


def no_alarms() -> bool:
    """Whether the thread of the alarms has ended."""
    return not any(thread.name == "spanfuse-alarms" for thread in threading.enumerate())


def test_a_session_has_one_token_and_cancelling_it_is_seen_by_all_who_hold_it() -> None:
    cancels = Cancels()
    token = cancels.token("run-1")
    assert cancels.token("run-1") is token
    assert cancels.token("run-2") is not token
    token.raise_if_cancelled()
    assert (token.cancelled, token.reason) == (False, "")
    cancels.cancel("run-1", "enough")
    assert (token.cancelled, token.reason) == (True, "enough")
    with pytest.raises(Blocked) as refused:
        token.raise_if_cancelled()
    assert (refused.value.rule, refused.value.key) == ("cancelled", "session:run-1")


def test_who_asks_after_it_was_cancelled_is_told_so() -> None:
    cancels = Cancels()
    cancels.cancel("run-1", "enough")
    assert cancels.token("run-1").reason == "enough"


@pytest.mark.parametrize(
    "key", ["session:run-1", "agent:planner", "user:ada", "team:research", f"trace:{'f' * 32}", "global:*"]
)
def test_a_block_of_whatever_the_session_is_of_cancels_it(key: str) -> None:
    """R123: one control stops a team, also what is in progress."""
    cancels = Cancels()
    token, other = cancels.token("run-1", WHO), cancels.token("run-2", Identity("run-2", "writer"))
    cancels.decided(block(key))
    assert token.cancelled
    assert other.cancelled is (key == "global:*")
    assert cancels.token("run-3", WHO, [block(key)]).cancelled


@pytest.mark.parametrize(
    "decision",
    [
        block("session:run-1", mode="observe"),
        block("session:run-1", loop=[LoopPrint(canon="a" * 16)]),
        block("session:run-1", conditional=True),
        block("session:run-1", for_s=-1),
        nudge("session:run-1"),
        block("session:run-2"),
    ],
    ids=["observed", "of a loop", "conditional", "expired", "nudge", "another session"],
)
def test_what_lets_calls_through_cancels_nothing(decision: object) -> None:
    cancels = Cancels()
    token = cancels.token("run-1", WHO)
    cancels.decided(decision)  # type: ignore[arg-type]
    assert not token.cancelled


def test_a_mode_of_the_process_decides_for_all() -> None:
    for mode, cancelled in (("observe", False), ("enforce", True)):
        cancels = Cancels(mode)  # type: ignore[arg-type]
        token = cancels.token("run-1")
        cancels.decided(block("session:run-1", mode="enforce" if mode == "observe" else "observe"))
        assert token.cancelled is cancelled


def test_a_session_that_was_reset_begins_with_a_new_token() -> None:
    cancels = Cancels()
    before = cancels.token("run-1")
    cancels.cancel("run-1")
    cancels.decided(closed("session:run-1"))
    assert before.cancelled
    assert not cancels.token("run-1").cancelled
    assert "run-1" not in cancels.held


def test_caps_that_let_nothing_more_through_cancel_and_other_refusals_do_not() -> None:
    cancels = Cancels()
    token = cancels.token("run-1", WHO)
    for rule in ("tools.deny", "budget.user/daily", "unavailable", "repeat.prompt"):
        cancels.refused(block("session:run-1", rule=rule), WHO)
    assert not token.cancelled
    cancels.refused(block("session:run-1", rule="limits.max_steps"), WHO)
    assert token.cancelled


def test_it_is_waited_for_without_holding_up_the_event_loop() -> None:
    async def main() -> None:
        cancels = Cancels()
        waits = [asyncio.ensure_future(cancels.token("run-1").wait()) for _ in range(3)]
        await asyncio.sleep(0)
        assert not any(wait.done() for wait in waits)
        given_up = waits.pop()
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        await asyncio.to_thread(cancels.cancel, "run-1", "enough")
        assert await asyncio.gather(*waits) == ["enough", "enough"]
        assert await cancels.token("run-1").wait() == "enough"

    asyncio.run(main())


def test_callbacks_are_called_once_and_one_that_fails_is_counted() -> None:
    called: list[str] = []
    token = CancelToken("run-1")
    token.on_cancel(lambda found: called.append(found.reason))
    token.on_cancel(lambda found: called[99])
    token.cancel("enough")
    token.cancel("more than enough")
    token.on_cancel(lambda found: called.append("late"))
    assert (called, token.failures, token.reason) == (["enough", "late"], 1, "enough")


def test_a_callback_is_called_though_nobody_holds_the_token() -> None:
    cancels, called = Cancels(), threading.Event()
    cancels.token("run-1").on_cancel(lambda token: called.set())
    gc.collect()
    cancels.cancel("run-1")
    assert called.is_set()
    assert not cancels._kept


def test_many_threads_that_cancel_at_once_call_once() -> None:
    cancels, called = Cancels(), list[str]()
    cancels.token("run-1").on_cancel(lambda token: called.append(token.reason))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: cancels.cancel("run-1", str(n)), range(100)))
    assert len(called) == 1


def test_tokens_that_nobody_holds_cost_nothing_and_cancelled_sessions_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cancel, "MAX_SESSIONS", 50)
    cancels = Cancels()
    for n in range(500):
        cancels.token(f"s{n}", Identity(f"s{n}", f"a{n}", f"u{n}", f"t{n}"))
        cancels.cancel(f"s{n}")
    gc.collect()
    cancels.token("last")
    assert len(cancels._by_session) <= 1
    assert len(cancels._by_key) <= 12
    assert len(cancels.held) == 50


def test_it_fires_at_the_deadline_and_no_thread_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alarms, "IDLE_S", 0.02)
    cancels = Cancels()
    tokens = [cancels.token(f"s{n}") for n in range(200)]
    now = cancels._monotonic()
    for n, token in enumerate(tokens):
        cancels.deadline(token.session, now + 0.001 * (n % 50))
    assert sum(thread.name == "spanfuse-alarms" for thread in threading.enumerate()) == 1
    wait_until(lambda: all(token.cancelled for token in tokens))
    assert tokens[0].decision is not None
    assert tokens[0].decision.rule == "limits.max_duration_s"
    wait_until(no_alarms)


def test_a_deadline_is_replaced_by_another_and_let_go_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alarms, "IDLE_S", 0.02)
    cancels = Cancels()
    token, later = cancels.token("run-1"), cancels.token("run-2")
    now = cancels._monotonic()
    cancels.deadline("run-1", now + 3600)
    cancels.deadline("run-2", now + 0.01)
    cancels.deadline("run-2", now + 3600)
    cancels.deadline("run-1", now)
    wait_until(lambda: token.cancelled)
    assert not later.cancelled
    cancels.close()
    cancels.deadline("run-3", now)  # wakes the thread, which then finds that nothing is to come
    wait_until(no_alarms)
    assert not later.cancelled


def test_a_child_process_begins_without_the_alarms_of_its_parent() -> None:
    cancels = Cancels()
    cancels.deadline("run-1", cancels._monotonic() + 3600)
    answers = multiprocessing.get_context("fork").SimpleQueue()

    def child() -> None:
        cancels.after_fork()
        token = cancels.token("run-2")
        cancels.deadline("run-2", cancels._monotonic())
        wait_until(lambda: token.cancelled)
        answers.put(len(cancels._alarms._heap))

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(20)
    assert process.exitcode == 0
    assert answers.get() == 0
    cancels.close()


@pytest.mark.parametrize("switch", [{"SPANFUSE_DISABLED": "1"}, {"SPANFUSE_MODE": "observe"}], ids=["off", "observe"])
def test_a_deadline_that_is_not_enforced_cancels_nothing(
    switch: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in switch.items():
        monkeypatch.setenv(name, value)
    guard = Guard(MemorySubscriber())
    with guard.session("s", deadline_s=0.0):
        assert guard.cancels._alarms._thread is None
        assert not guard.cancel_token().cancelled


def test_deadlines_of_many_sessions_take_bounded_room() -> None:
    cancels = Cancels()
    for number in range(2 * MAX_SESSIONS + 5):
        cancels.deadline(f"s-{number}", 1e12)
    for _ in range(1000):
        cancels.deadline("s-0", 1e12)
    assert len(cancels._deadlines) == MAX_SESSIONS
    assert len(cancels._alarms) <= 2 * MAX_SESSIONS + 1
    cancels.close()


def test_a_deadline_of_the_far_future_keeps_no_other_from_being_told() -> None:
    cancels = Cancels()
    token = cancels.token("soon")
    cancels.deadline("never", 1e300)
    wait_until(lambda: cancels._alarms._thread is not None and cancels._alarms._thread.is_alive())
    cancels.deadline("soon", 0.0)
    wait_until(lambda: token.cancelled)
    cancels.close()

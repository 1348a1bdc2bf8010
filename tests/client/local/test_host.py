"""`Guard(local=True)`: the core in the agent's own process holds to the call, without any server."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import pytest

from spanfuse import Blocked, Guard
from spanfuse.testing import FakeClock, MemorySubscriber, block, closed
from spanfuse_schemas import Policy


@pytest.fixture
def guard() -> Guard:
    return Guard(local=True)


def said(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def answer(
    text: str = "", *, tool: str = "", arguments: str = "{}", tokens: tuple[int, int] = (10, 5)
) -> dict[str, Any]:
    """A chat completion of OpenAI."""
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if tool:
        message["tool_calls"] = [{"id": "c1", "type": "function", "function": {"name": tool, "arguments": arguments}}]
    return {
        "object": "chat.completion",
        "model": "gpt-4o-mini",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]},
    }


def make(
    guard: Guard, messages: list[Any], reply: dict[str, Any] | None = None, session: str = "s", **more: Any
) -> None:
    with guard.call(model="gpt-4o-mini", messages=messages, session=session, **more) as call:
        call.answered(reply or answer("Fine."))


def calls_until_blocked(guard: Guard, make_one: Any, most: int = 60) -> tuple[int, str]:
    for made in range(most):
        try:
            make_one(made)
        except Blocked as refusal:
            return made, refusal.rule
    return most, ""


def test_the_same_prompt_again_and_again_is_refused_the_fourth_time(guard: Guard) -> None:
    assert calls_until_blocked(guard, lambda n: make(guard, said("What is the time?"))) == (3, "repeat.prompt")


def test_a_tool_that_brings_the_same_again_and_again_stops_the_fourth_call(guard: Guard) -> None:
    history: list[Any] = said("Find the order.")

    def turn(n: int) -> None:
        reply = answer(tool="search", arguments='{"q": "order 7"}')
        make(guard, history, reply)
        history.append(reply["choices"][0]["message"])
        history.append({"role": "tool", "tool_call_id": "c1", "content": "no results"})

    made, rule = calls_until_blocked(guard, turn)
    assert (made, rule) == (3, "repeat.no_progress")


def test_a_cycle_of_two_prompts_is_refused(guard: Guard) -> None:
    made, rule = calls_until_blocked(guard, lambda n: make(guard, said("ping" if n % 2 else "pong, if you please")))
    assert (made, rule) == (6, "cycle")


def test_an_agent_that_leaves_its_loop_is_let_through(guard: Guard) -> None:
    calls_until_blocked(guard, lambda n: make(guard, said("What is the time?")))
    make(guard, said("Then tell me the date."))


def test_work_is_not_stopped_and_sessions_are_told_apart(guard: Guard) -> None:
    for n in range(50):
        make(guard, said(f"Question {n} of another kind, about {n * n}"), session="work")
        make(guard, said("What is the time?"), session=f"s{n}")


def test_a_call_without_a_session_is_nobodys() -> None:
    guard = Guard(local=True)
    for _ in range(10):
        with guard.call(messages=said("What is the time?")):
            pass


@pytest.mark.parametrize("threads", [1, 8])
def test_a_step_cap_of_the_rules_is_exact_with_calls_in_flight(threads: int) -> None:
    guard, passed = Guard(local={"limits": {"max_steps": 20}}), []

    def work(k: int) -> None:
        for n in range(40):
            with suppress(Blocked):
                make(guard, said(f"Question {k} {n} {k * 1000 + n}"))
                passed.append(n)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(passed) == 20
    assert guard.counters.by_rule == {"limits.max_steps": threads * 40 - 20}


def test_the_sessions_budget_of_the_rules_counts_what_is_in_flight_by_its_estimate() -> None:
    guard = Guard(local={"budget.session": {"limit_usd": 1.0}}, price=lambda model, sent, brought: 0.3)
    in_flight = [guard.call(messages=said(f"Question {n}"), session="s") for n in range(4)]
    for call in in_flight:
        call.begin()
    with pytest.raises(Blocked, match=r"\$1\.2000 of its budget of \$1\.0000"):
        guard.call(messages=said("One more"), session="s").begin()
    for call in in_flight:
        call.end(ConnectionError("away"))
    make(guard, said("Now there is room"))
    assert guard.spent("s").cost_usd == pytest.approx(0.3)


def test_executions_of_a_tool_are_capped_by_the_rules() -> None:
    guard = Guard(local={"limits": {"max_tool_calls": {"mail": 2}}})

    def mail(n: int) -> None:
        with guard.tool("mail", {"to": f"user-{n}"}, session="s") as tool:
            tool.result(f"sent to {n}")

    assert calls_until_blocked(guard, mail) == (2, "limits.max_tool_calls")


def test_costs_are_list_prices(guard: Guard) -> None:
    make(guard, said("Count"), answer("1", tokens=(1_000_000, 1_000_000)))
    assert guard.spent("s").cost_usd == pytest.approx(0.15 + 0.60)


def test_what_is_cached_costs_less(guard: Guard) -> None:
    reply = answer("1", tokens=(1_000_000, 0))
    reply["usage"]["prompt_tokens_details"] = {"cached_tokens": 1_000_000}
    make(guard, said("Count"), reply)
    assert guard.spent("s").cost_usd == pytest.approx(0.075)


def test_failures_of_the_provider_open_the_breaker_and_close_it_after_a_good_probe() -> None:
    clock = FakeClock()
    guard = Guard(local=True, now_ns=clock.now_ns, monotonic=clock.monotonic)

    def fail(n: int) -> None:
        clock.advance(1)
        call = guard.call(model="m", messages=said(f"Question {n}, {n * n}"), session="s")
        call.begin()
        call.end(TimeoutError("timed out"))

    assert calls_until_blocked(guard, fail) == (5, "errors")
    clock.advance(301)
    make(guard, said("Are you there?"))
    make(guard, said("Good. Then to the matter."))
    assert guard.decisions() == []


def test_a_probe_of_ones_own_breaker_asks_no_fleet() -> None:
    clock = FakeClock()

    class NoLeases:
        def take(self, *asked: object) -> None:
            raise AssertionError("the fleet was asked")

        give_back = take

        def close(self) -> None: ...

    guard = Guard(local=True, leases=NoLeases(), now_ns=clock.now_ns, monotonic=clock.monotonic)
    calls_until_blocked(guard, lambda n: make(guard, said("What is the time?")))
    clock.advance(301)
    guard.call(messages=said("What is the time?"), session="s").begin()
    with pytest.raises(Blocked):
        guard.check(session="s", messages=said("What is the time?"))
    assert guard.counters.probes == 1


def test_with_a_server_both_hold() -> None:
    server = MemorySubscriber(block("session:elsewhere"))
    guard = Guard(server, local=True)
    with pytest.raises(Blocked):
        make(guard, said("Hello"), session="elsewhere")
    assert calls_until_blocked(guard, lambda n: make(guard, said("What is the time?")))[0] == 3


def test_a_reset_on_the_server_forgets_what_was_counted_here() -> None:
    server = MemorySubscriber()
    guard = Guard(server, local={"limits": {"max_steps": 3}})
    assert calls_until_blocked(guard, lambda n: make(guard, said(f"Question {n * 7}"))) == (3, "limits.max_steps")
    server.publish(closed("session:s").model_copy(update={"reset": True}))
    assert calls_until_blocked(guard, lambda n: make(guard, said(f"Question {n * 11}"))) == (3, "limits.max_steps")


def test_in_mode_observe_nothing_is_refused_and_it_says_what_would_have_been() -> None:
    guard = Guard(local=True, mode="observe")
    for _ in range(6):
        make(guard, said("What is the time?"))
    assert guard.counters.by_rule == {"repeat.prompt": 3}


def test_a_policy_that_only_observes_is_obeyed() -> None:
    guard = Guard(local=Policy(mode="observe"))
    for _ in range(6):
        make(guard, said("What is the time?"))
    assert guard.counters.would_block == 3


def test_a_thousand_calls_a_second_are_stopped_at_the_same_call(guard: Guard) -> None:
    """Nothing depends on time: no queue, no thread, no clock between a call and the next."""
    assert calls_until_blocked(guard, lambda n: make(guard, said("What is the time?")), most=1000)[0] == 3
    assert guard.counters.blocked == 1

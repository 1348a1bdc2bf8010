"""What people who run agents have reported, as specification. Each test is one report, by its number."""

from __future__ import annotations

from typing import Any

import pytest

from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.session import SessionState
from spanfuse_schemas import Override
from tests.support.agents import Run, failure, llm, play, policy, prompt, tool, tool_loop

Steps = list[tuple[str, Any, Any]]


def stops(steps: Steps, **rules: Any) -> list[Run]:
    """The run of an agent whose steps show in model calls, and of one whose steps show in tool spans."""
    spans = []
    for i, (name, arguments, result) in enumerate(steps):
        spans.append(llm([{"role": "user", "content": f"note {i} of {name}{i}"}], at=2 * i))
        spans.append(tool(name, arguments, result, at=2 * i + 1))
    spans.append(llm([{"role": "user", "content": "the last note"}], at=2 * len(steps)))
    return [play(tool_loop(steps, every=2), policy(**rules)), play(spans, policy(**rules))]


def blocked(steps: Steps, at: int, *rules: str, **settings: Any) -> None:
    for run in stops(steps, **settings):
        assert run.blocked_at == at
        assert run.rule in rules


def quiet(steps: Steps, *allowed: str, **settings: Any) -> None:
    for run in stops(steps, **settings):
        assert run.blocked_at is None
        assert {d.rule for d in run.detections if not d.conditional} <= set(allowed)


def test_r001_edits_of_different_files_are_work() -> None:
    quiet([("edit", {"path": f"f{i}"}, f"ok f{i}") for i in range(8)])


def test_r002_a_routine_over_a_list_of_files_is_work() -> None:
    quiet(
        [s for f in "abcde" for s in (("grep", {"q": f}, f"{f}.x"), ("mv", {"f": f}, "ok"), ("edit", {"f": f}, "ok"))]
    )


def test_r003_two_calls_that_alternate_are_a_cycle() -> None:
    blocked([("A", 1, "x"), ("B", 2, "y")] * 4, 6, "cycle")


def test_r004_structure_within_one_text_is_no_loop() -> None:
    table = "\n".join("| a | 1 |" for _ in range(12))
    assert play([prompt(table), prompt("and now something else", at=2)]).quiet


def test_r006_a_minimum_interval_tells_waiting_from_looping() -> None:
    calls = [tool("http_get", "/job/7", "pending", at=300 * i) for i in range(4)]
    rules = policy().model_copy(
        update={"overrides": (Override(tool="http_*", rules={"repeat.no_progress": {"min_interval_s": 60}}),)}
    )
    assert play(calls, rules).quiet
    assert not play(calls).quiet


def test_r007_the_waiting_call_has_a_threshold_of_its_own() -> None:
    rules = policy().model_copy(
        update={"overrides": (Override(tool="cmd", rules={"repeat.no_progress": {"count": 10}}),)}
    )
    assert play((tool("cmd", "", "", at=i) for i in range(9)), rules).quiet
    assert not play((tool("cmd", "", "", at=i) for i in range(10)), rules).quiet


def test_r008_reading_a_stream_is_progress() -> None:
    quiet([("read_output", {}, f"h{i} bytes") for i in range(20)], "repeat.action")


def test_r010_a_failing_test_between_peeks_is_found() -> None:
    steps: Steps = []
    for f in "abcdef":
        steps += [("test", {}, "1 failed"), ("read", {"path": f}, f"text of {f}")]
    quiet(steps[:6], "repeat.no_progress")  # a nudge
    blocked(steps, 9, "repeat.no_progress")
    quiet([(n, a, r if n == "read" else f"{i} failed") for i, (n, a, r) in enumerate(steps)])


def test_r011_polls_are_judged_by_their_results_and_cycles_of_three_are_found() -> None:
    quiet([("poll", "h", r) for r in ("10%", "40%", "done")])
    blocked([("read", 1, "X"), ("edit", 2, "Error: no match"), ("test", 3, "Error: failed")] * 4, 6, "cycle")


def test_r012_two_successful_calls_in_turn_are_a_cycle() -> None:
    blocked([("lookup", "a", "1"), ("search", "b", "2")] * 3, 6, "cycle")


def test_r013_a_plain_loop_trips() -> None:
    blocked([("ls", "/d", "x")] * 6, 3, "repeat.no_progress")


def test_r015_many_reads_of_different_files_are_work() -> None:
    quiet([("read", {"path": f"f{i}"}, f"text {i}") for i in range(20)])


def test_r016_parallel_reads_of_one_turn_are_work() -> None:
    calls = [tool("read", f"f{i}", f"text {i}", at=1 + i * 0.01, lasts=0.5, parent_span_id="f" * 16) for i in range(5)]
    assert play(calls).quiet


def test_r017_one_mistake_in_a_parallel_batch_is_one_failure() -> None:
    def batch(turn: int) -> list[Any]:
        at = 10.0 * turn
        return [
            tool(
                "agg",
                i,
                "groupby empty",
                at=at + i * 0.01,
                lasts=0.5,
                error="ValueError",
                parent_span_id=f"{turn + 1:016x}",
            )
            for i in range(8)
        ]

    assert play(batch(0)).quiet
    run = play([c for turn in range(3) for c in [*batch(turn), prompt(f"next {turn} thing{turn}", at=turn * 10 + 5)]])
    assert "repeat.no_progress" in run.rules


def test_r018_the_same_parallel_batch_in_any_order_is_a_repeat() -> None:
    calls = []
    for turn in range(5):
        order = [("a", 1, "x"), ("b", 2, "y")]
        for k, (name, argument, result) in enumerate(order if turn % 2 else order[::-1]):
            calls.append(
                tool(name, argument, result, at=turn * 2 + k * 0.01, lasts=0.5, parent_span_id=f"{turn + 1:016x}")
            )
        calls.append(prompt(f"turn {turn} about thing{turn}", at=turn * 2 + 1))
    assert play(calls).blocked_at == 2  # the call after the third batch


def test_r019_an_exempt_tool_is_not_counted() -> None:
    override = Override(tool="list_background", rules={"repeat.no_progress": {"exempt": True}})
    rules = policy().model_copy(update={"overrides": (override,)})
    assert play((tool("list_background", {}, [], at=5 * i) for i in range(12)), rules).quiet


def test_r021_a_few_refusals_of_the_provider_are_no_loop_and_a_storm_is() -> None:
    gaps = (0, 1, 3, 7)
    assert play([*(failure(at=t) for t in gaps), prompt("hello", at=15)]).quiet
    assert play(failure(at=i * 0.25) for i in range(40)).rule == "errors"


def test_r024_two_agents_that_hand_a_task_back_and_forth_are_a_cycle() -> None:
    calls = []
    for i in range(8):
        me, other = ("A", "B") if i % 2 == 0 else ("B", "A")
        calls.append(tool("delegate", {"to": other, "task": "t"}, "handed over", at=i, agent=me))
        calls.append(llm([{"role": "user", "content": f"n{i} of {me}{i}"}], at=i + 0.5, agent=me))
    assert "cycle" in play(calls).rules


def test_r028_the_same_failing_query_trips_at_the_third() -> None:
    blocked([("sql", "q", "Error: bad namespace")] * 4, 3, "repeat.error", "repeat.no_progress")


def test_r030_detectors_know_no_tools_by_name() -> None:
    blocked([("read_file", {"path": "h", "limit": 50, "offset": 1}, "text")] * 6, 3, "repeat.no_progress")


def test_r031_the_order_of_keys_and_white_space_do_not_make_another_call() -> None:
    for form in ('{"a":1,"b":2}', '{"b":2, "a":1}'), ('{ "a":1,"b":2 }', '{"a": 1, "b": 2}'):
        calls = [tool("f", form[i % 2], "same", at=i) for i in range(3)]
        assert {"near.no_progress", "repeat.no_progress"} & set(play(calls).rules)
    assert play([tool("f", [1, 2] if i % 2 else [2, 1], f"r{i % 2}", at=i) for i in range(4)]).quiet


def test_r033_zero_and_absent_are_different() -> None:
    a, b = {"path": "f", "off": 0}, {"path": "f"}
    assert play([tool("read", x, "same", at=i) for i, x in enumerate([a, b, a, b])]).quiet


def test_r034_failures_of_different_items_are_different() -> None:
    quiet([("send", x, "Error: refused") for x in "abcd"])


def test_r043_a_storm_of_nested_retries_trips_the_errors_rule() -> None:
    assert play(failure(at=i * 0.6, text="the same prompt") for i in range(45)).rule == "errors"


@pytest.mark.parametrize("extra", [0, 1])
def test_r049_a_renamed_worker_stays_under_the_limit_of_its_session(extra: int) -> None:
    calls = [prompt(f"q{i} on thing{i}", at=i, agent="x" if i < 15 else "x-2") for i in range(20 + extra)]
    run = play(calls, policy(limits={"max_steps": 20}))
    assert run.blocked_at == (20 if extra else None)


def test_r054_one_span_delivered_three_times_is_charged_once() -> None:
    session, pipeline = SessionState("s"), Pipeline(policy())
    call = prompt("x", cost=100_000_000)
    for _ in range(3):
        pipeline.step(session, call)
    assert session.cost_nano_usd == 100_000_000


def test_r116_client_mistakes_of_one_session_leave_others_alone() -> None:
    assert play(failure("400", at=i, error_class="client", text=f"t{i}") for i in range(10)).quiet


def test_r117_a_probe_that_loops_again_makes_the_cooldown_longer() -> None:
    run = play([prompt("again", at=i) for i in range(3)])
    (opened,) = [d for d in run.decisions if d.state == "open"]
    again = play([prompt("again", at=400)], session=run.session).decisions[0]
    assert again.expires_at_ns is not None
    assert opened.expires_at_ns is not None
    assert again.expires_at_ns - again.issued_at_ns == 2 * (opened.expires_at_ns - opened.issued_at_ns)


def test_r131_a_rule_in_shadow_records_the_block_and_lets_the_call_pass() -> None:
    run = play((prompt("same", at=i) for i in range(5)), policy(repeat_prompt={"mode": "shadow"}))
    assert run.blocked_at is None
    assert not run.decisions
    assert [(d.action, d.mode) for d in run.detections] == [("block", "shadow")]

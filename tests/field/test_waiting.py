"""Field reports: waiting and polling are judged by time and by what they bring, not by their number."""

from __future__ import annotations

from spanfuse_schemas import Policy
from tests.support.road import CALLS, play, run, untouched
from tests.support.script import Act, Item, agent, tool, user, wait


def polls(poll: Act, gap_s: float, n: int) -> list[Item]:
    return [item for _ in range(n) for item in (poll, wait(gap_s))]


def overriding(tool: str, **settings: object) -> Policy:
    override = {"tool": tool, "rules": {"repeat.no_progress": settings}}
    return Policy.model_validate({"mode": "enforce", "overrides": [override]})


def test_r006_polls_at_an_interval_that_was_ordered_are_no_repeats() -> None:
    """With a minimum interval for tools of that name, every fifth minute is waiting, which else is told; the same within
    seconds is a loop."""
    rules = overriding("http_*", min_interval_s=60)
    pending = tool("http_get", url="/job/7") >> "pending"
    untouched(*polls(pending, 298, 6), rules=rules, shows=CALLS)
    assert run(*polls(pending, 298, 6)).rules == {"repeat.no_progress"}
    assert run(*[pending] * 6, rules=rules).after == 3


def test_r019_a_tool_may_be_exempt_and_still_counts_for_limits() -> None:
    """Asking what runs in the background is exempt from repetition, not from the caps of the session."""
    listing = [tool("list_background") >> []] * 12
    rules = overriding("list_background", exempt=True)
    untouched(*listing, rules=rules, every=5, shows=CALLS)
    capped = Policy.model_validate({**rules.model_dump(), "rules": {"limits": {"max_steps": 8}}})
    played = run(*listing, rules=capped, every=5)
    assert (played.after, played.rule) == (8, "limits.max_steps")


def test_r040_an_agent_that_is_woken_for_nothing_is_found_over_half_hours() -> None:
    """A timer that sends the whole context every half hour and is answered "OK" is told by the fourth time."""
    played = run(*[user("Heartbeat. Anything to do?") >> "OK"] * 6, every=1800)
    assert played.rules
    assert min(d.call for d in played.detections) <= 3


def test_r005_sleeping_and_looking_in_turn_is_waiting() -> None:
    """Two tools instead of one: what sleeps and what looks. That is no cycle worth a stop while the sleeping takes its time."""
    look = tool("status", job="j") >> "running"
    script = [s for _ in range(5) for s in (tool("sleep", seconds=60).takes(60) >> "slept", look)]
    untouched(*script, tool("status", job="j") >> "done", hints={"repeat.no_progress", "repeat.action", "cycle"})


def test_r005_an_agent_that_sleeps_before_it_looks_again_is_waiting() -> None:
    """Equal looks at a slow job, two minutes apart, of which the tool itself slept most, are at most worth a warning."""
    look = tool("bash", command="sleep 110; tail -1 log").takes(110)
    untouched(
        *polls(look >> "running", 8, 4),
        look >> "done",
        hints={"repeat.no_progress", "repeat.action"},
    )


def test_r008_where_results_are_not_recorded_more_repeats_are_let_through_and_then_told() -> None:
    """Arguments alone say less: nothing for the first handful, and a word before the fortieth."""
    calls = [tool("read_output") >> None] * 40
    assert not play(agent(*calls[:6], shows="spans")).detections
    assert play(agent(*calls, shows="spans")).detections

"""Field reports: agents that start agents, hand one another their task, or run into one limit together."""

from __future__ import annotations

from spanfuse_schemas import Policy
from tests.support.agents import policy
from tests.support.road import play
from tests.support.scopes import scopes
from tests.support.script import Call, Sent, agent, prompt, refused, tool, user

TRACE, PARENT = "c" * 32, "d" * 16
WORDS = [
    f"{a} {b}"
    for a in ("tides", "moss", "clocks", "rope", "salt", "bees")
    for b in ("north", "south", "east", "west", "sea")
]
BLOCKING = Policy.model_validate({"mode": "enforce", "rules": {"fanout": {"mode": "block"}}})


def tree(depth: int, width: int, *, at: float = 0, name: str = "root") -> list[Sent]:
    """An agent that starts `width` agents, each of which does the same, down to `depth`; sessions of their own, one trace."""
    seen = [tool("look", at=f"{name} {w}") >> f"what {name} has seen of {w}, at some length" for w in WORDS[:5]]
    spans = agent(*seen, session=f"s-{name}", name=name, trace=TRACE, parent=PARENT, at=at, done=False)
    if depth:
        for i in range(width):
            spans += tree(depth - 1, width, at=at + 3 + i, name=f"{name}.{i}")
    return spans


def test_r035_agents_that_multiply_are_stopped_as_a_tree() -> None:
    """Five that start five each within a minute are 31 agents: where the operator says so, the whole trace is refused."""
    rules = BLOCKING
    played = play(tree(2, 5), rules, beyond=scopes(rules))
    assert "fanout" in played.rules
    assert {s.decision.key for s in played.stops.values()} == {f"trace:{TRACE}"}
    assert len(played.stops) > 5


def test_r035_five_workers_of_one_lead_are_no_explosion() -> None:
    """A lead with its workers is how such systems are built."""
    played = play(tree(1, 5), BLOCKING, beyond=scopes(BLOCKING))
    assert not played.stops
    assert "fanout" not in played.rules


def test_r037_invented_names_are_counted_too() -> None:
    """Two hundred names in one trace are as many agents, whatever they are called."""
    spans = [
        s
        for i in range(200)
        for s in agent(prompt(f"u{i}"), session="s", name=f"u{i}", trace=TRACE, parent=PARENT, at=0.2 * i)
    ]
    assert "fanout" in play(spans, beyond=scopes()).rules


def test_r044_a_team_that_meets_its_providers_limit_is_told_as_a_team() -> None:
    """Fifteen sessions with ten failures each are one alert about the team, which asks for pacing; none is a loop."""
    spans = [
        s
        for i in range(15)
        for s in agent(*[refused()] * 10, session=f"s{i}", name=f"a{i}", team="t", every=5.5, at=0.1 * i, done=False)
    ]
    played = play(spans, beyond=scopes(), obey=False)
    found = [d for d in played.detections if d.rule == "retries" and d.team == "t"]
    assert len(found) == 1
    assert "pace" in found[0].message.lower()
    assert not [d for d in played.detections if d.rule.startswith(("repeat.", "near.", "cycle", "stagnation"))]


def test_r042_two_agents_that_only_talk_to_each_other_are_told() -> None:
    """Every message is new and every call succeeds: what tells is that they take turns and nothing else happens."""
    spans = []
    for i in range(30):
        said = prompt(f"Please clarify {WORDS[i]}.") >> f"On {WORDS[i]} it depends."
        spans += agent(said, name=("analyst", "verifier")[i % 2], at=20 * i, trace=TRACE, done=False)
    played = play(spans, beyond=scopes())
    assert "handoffs" in played.rules
    assert not played.stops


def test_r042_what_they_spend_ends_with_the_budget() -> None:
    """The session's budget holds, however healthy each call looks."""
    spans = []
    for i in range(30):
        said = prompt(f"Please clarify {WORDS[i]}.") >> f"On {WORDS[i]} it depends."
        spans += agent(
            Call(cost_usd=0.05), said, name=("analyst", "verifier")[i % 2], at=20 * i, trace=TRACE, done=False
        )
    played = play(spans, policy(budget_session={"limit_usd": 1.0}))
    assert (played.after, played.rule) == (20, "budget.session")


def test_r038_compaction_that_runs_away_is_found_by_its_tokens() -> None:
    """Calls of 200,000 tokens within minutes, no tool and no user between them: told by the fourth at the latest."""
    spans = agent(Call(input=200_000, output=400), *[prompt(f"Summarise. {w}") for w in WORDS[:6]], every=60)
    played = play(spans)
    assert played.rules
    assert min(d.call for d in played.detections) <= 3


def test_r040_an_idle_agent_that_is_woken_with_all_its_context_is_told() -> None:
    """Every half hour 150,000 tokens for an "OK": told by the fourth, though no two wakings read alike."""
    wakings = [user(f"{w}: anything to do?") >> "OK" for w in WORDS[:6]]
    played = play(agent(Call(input=150_000, output=5), *wakings, every=1800))
    assert played.rules
    assert min(d.call for d in played.detections) <= 3

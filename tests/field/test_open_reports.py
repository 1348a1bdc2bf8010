"""Field reports that do not hold yet."""

from __future__ import annotations

from tests.support.road import play
from tests.support.scopes import scopes
from tests.support.script import agent, prompt

WORDS = [
    f"{a} {b}"
    for a in ("tides", "moss", "clocks", "rope", "salt", "bees")
    for b in ("north", "south", "east", "west", "sea")
]


def test_r042_two_agents_with_sessions_of_their_own_that_only_talk_to_each_other_are_told() -> None:
    """A session for each agent and one conversation of both: it is the conversation that goes round."""
    spans = []
    for i in range(30):
        name = ("analyst", "verifier")[i % 2]
        said = prompt(f"Please clarify {WORDS[i]}.") >> f"On {WORDS[i]} it depends."
        who = {"session": f"s-{name}", "conversation": "c", "name": name, "trace": "c" * 32, "parent": "d" * 16}
        spans += agent(said, at=20 * i, done=False, **who)
    assert "handoffs" in play(spans, beyond=scopes()).rules

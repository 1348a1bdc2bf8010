"""What the five agents do, and how each must end."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count, cycle, product
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Scenario:
    """One agent."""

    name: str
    """Name of the agent."""
    doing: str
    """What it does, for people."""
    stopped_by: str | None
    """Rule that must stop it; none: it must finish."""
    max_calls: int
    """Model calls after which it gives up, stopped or not."""
    pause_s: float = 0.1
    """Pause between two calls, seconds."""
    model: str = "gpt-4o-mini"
    """Model it asks for."""
    usage: tuple[int, int] = (60, 40)
    """Input and output tokens that the fake LLM reports for each call."""

    @property
    def session(self) -> str:
        """Session id of its run."""
        return f"demo-{self.name}"


SCENARIOS: Final = (
    Scenario("repeater", "asks the same question again and again", "repeat.prompt", max_calls=15),
    Scenario("cycler", "summarises, translates, summarises, translates", "cycle", max_calls=20),
    Scenario("burster", "asks something else as fast as it can", "velocity", max_calls=400, pause_s=0),
    Scenario("overspender", "calls a dear model", "budget.session", max_calls=15, model="gpt-4o", usage=(4000, 1000)),
    Scenario("healthy", "reads eight pages, then answers", None, max_calls=15),
)
BY_NAME: Final = {scenario.name: scenario for scenario in SCENARIOS}

PAGES: Final = 8
"""Pages that the healthy agent reads."""

_TEXT: Final = "The circuit breaker opens when the current exceeds what the wire can carry."
_ADJECTIVES: Final = ("early", "quiet", "rusty", "golden", "hollow", "rapid", "wooden", "silent", "crooked", "gentle")
_THINGS: Final = (
    "harbour", "lantern", "orchard", "violin", "glacier", "market", "bridge", "comet", "garden", "engine",
    "island", "letter", "mirror", "needle", "ocean", "pencil", "quarry", "river", "saddle", "tunnel",
    "umbrella", "valley", "window", "yard", "zeppelin", "anchor", "basket", "candle", "desert", "feather",
    "hammer", "kettle", "ladder", "marble", "oyster", "pepper", "ribbon", "shadow", "teapot", "whistle",
)  # fmt: skip
_CHAPTERS: Final = ("origins", "trade", "weather", "kings", "roads", "food", "wars", "music", "science", "towns")


def prompts(name: str) -> Iterator[str]:
    """The prompts of an agent that starts each call afresh, without a history."""
    if name == "repeater":
        return ("What is the weather in Tokyo?" for _ in count())
    if name == "cycler":
        return cycle((f"Summarise in one sentence: {_TEXT}", f"Translate into French: {_TEXT}"))
    if name == "overspender":
        return (f"Write the chapter about {chapter}, in full." for chapter in cycle(_CHAPTERS))
    return (f"Find a name for a shop that sells the {first} {thing}." for first, thing in product(_ADJECTIVES, _THINGS))


def page(number: int) -> str:
    """What the healthy agent's tool returns."""
    return f"Chapter on {_CHAPTERS[number % len(_CHAPTERS)]}: the {_THINGS[number]} was {_ADJECTIVES[number]}."

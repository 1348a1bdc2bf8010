"""Field reports: drift is a word of warning at a change of state, and nothing where nothing is known."""

from __future__ import annotations

from tests.support.agents import policy
from tests.support.road import ROADS, run
from tests.support.script import Item, tool, user

ORDERS = (
    "Please look up the invoice of the October order and tell me the total amount with the taxes that are in it.",
    "And what was the total amount with taxes on the invoice of the order that we placed in November last year?",
    "Compare the total amounts of the October order and the November order, with the taxes on the invoices in it.",
)
GARDENS = (
    "Which perennial shrubs would thrive beside a shady pond, when deer and rabbits browse there every single night?",
    "How deep should bulbs of daffodils go, and does mulching with bark keep voles from digging them up in winter?",
    "Suggest climbing roses which flower twice, smell sweetly, and survive frost on a windy hillside near mountains.",
)
WATCHING = policy(safety_drift={"mode": "warn"})


def turns(*texts: str) -> list[Item]:
    return [user(text) >> "I have noted it." for text in texts]


def test_r129_leaving_the_topic_is_told_once_until_it_is_left_again() -> None:
    """Drift is a state: entering it is an event, staying in it is none."""
    script = turns(*ORDERS, *GARDENS, *ORDERS, GARDENS[0])
    told = [d for d in run(*script, rules=WATCHING, shows="messages", every=400).detections if d.rule == "safety_drift"]
    assert [d.action for d in told] == ["warn", "warn"]
    assert [d.call for d in told] == [3, 9]


def test_r129_staying_on_the_topic_is_no_drift() -> None:
    """Other words for the same affair are none of it."""
    assert "safety_drift" not in run(*turns(*ORDERS), rules=WATCHING, shows="messages").rules


def test_r129_without_content_nothing_is_said_of_drift() -> None:
    """What cannot be compared is unknown, and unknown is not drift."""
    script = [tool("look", at=text) >> f"seen: {text}" for text in (*ORDERS, *GARDENS)]
    assert not run(*script, rules=WATCHING, shows="spans").rules


def test_r130_turning_to_tests_and_to_a_search_is_no_drift_by_any_rule() -> None:
    """The subtask of an agent changes while its user has said one thing."""
    script = [
        *[tool("edit", path=f"src/m{i}.py", new=f"x = {i}") >> f"edited m{i}, as it was asked for" for i in range(10)],
        *[tool("test", target=f"t{i}") >> f"1 failed: t{i} KeyError 'total' line {i}" for i in range(5)],
        *[
            tool("web_search", q=q) >> f"what is known about {q}"
            for q in ("KeyError total", "dict get default", "groupby keys")
        ],
    ]
    for way in ROADS:
        assert not run(*script, rules=WATCHING, shows=way).rules & {"drift", "safety_drift"}

"""What an operator lays over the configuration file."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from spanfuse_processor.config import Config
from spanfuse_processor.config.overlay import Overlay
from spanfuse_processor.hosts.overlaid import PolicyOrder, order_of, overlaid

FILE = Config.model_validate(
    {"detectors": {"cycle": {"rounds": 4}, "near": {"mode": "shadow"}}, "budgets": {"user/daily": {"limit_usd": 5}}}
)


def laid(sections: dict[str, Any], file: Config = FILE) -> PolicyOrder:
    return PolicyOrder.of(Overlay.model_validate(sections), file, "alice", "why", 7)


def test_rules_that_are_given_are_replaced_and_the_others_stay() -> None:
    found = overlaid(FILE, laid({"detectors": {"near": {"mode": "off"}}})).policy()
    assert (found.rules.near.mode, found.rules.cycle.rounds) == ("off", 4)
    assert [budget.name for budget in found.budgets] == ["user/daily"]


def test_every_other_section_is_replaced_as_a_whole() -> None:
    found = overlaid(FILE, laid({"mode": "enforce", "budgets": {"team/daily": {"limit_usd": 9}}})).policy()
    assert (found.mode, [budget.name for budget in found.budgets]) == ("enforce", ["team/daily"])
    assert found.rules.near.mode == "shadow"


def test_it_holds_while_the_file_says_the_same_and_comes_back_with_it() -> None:
    order = laid({"mode": "enforce"})
    other = FILE.model_copy(update={"detectors": Config().detectors})
    elsewhere = FILE.model_copy(update={"pricing": Config().pricing})
    assert [overlaid(file, order).policy().mode for file in (FILE, other, elsewhere)] == [
        "enforce",
        "observe",
        "enforce",
    ]


def test_it_is_the_same_after_it_was_written_and_read() -> None:
    budgets = {"user/u-7": {"for": "u-7", "limit_usd": 1, "period": "daily"}, "session": {"limit_usd": 2}}
    policies = [{"agent": "a*", "rules": {"near": {"mode": "off"}}}]
    sections = {"detectors": {"repeat.prompt": {"count": 9}}, "tools": {"default": "deny"}, "policies": policies}
    order = laid({**sections, "budgets": budgets})
    again = order_of(order.to_json())
    assert again == order
    assert overlaid(FILE, again) == overlaid(FILE, order)
    notice = order.notice(FILE)
    assert notice is not None
    assert (notice.actor, notice.reason, notice.at_ns, notice.in_force) == ("alice", "why", 7, True)


def test_an_empty_one_and_what_another_build_wrote_change_nothing() -> None:
    newer = laid({"mode": "enforce"}).model_copy(update={"overlay": {"detectors": {"foresight": {}}}})
    for data in (None, b"", b"garbage", newer.to_json()):
        assert order_of(data) is None
    empty = laid({})
    assert (empty.holds(FILE), empty.notice(FILE), overlaid(FILE, empty)) == (False, None, FILE)


@pytest.mark.parametrize(
    "sections",
    [
        {"receivers": {}},
        {"detectors": {"cycle": {"round": 4}}},
        {"mode": "block"},
        {"detectors": {"budget.session": {"limit_usd": 1}}},
    ],
)
def test_what_is_no_section_of_a_policy_is_refused(sections: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Overlay.model_validate(sections)

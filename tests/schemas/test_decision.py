"""Which calls a block applies to."""

from __future__ import annotations

from typing import Any

import pytest

from spanfuse_schemas import Decision, Fingerprint, LoopPrint
from spanfuse_schemas.fingerprint import fingerprint

LOOPING = fingerprint("search: no rows")
OTHER = fingerprint("search: 3 rows")
SEARCH = fingerprint({"q": "orders"})
READ = fingerprint({"path": "a.py"})
UNKNOWN = fingerprint("cut off he", truncated=True)


def block(**fields: Any) -> Decision:
    given = {"key": "session:s", "state": "open", "action": "block", "issued_at_ns": 1, **fields}
    return Decision.model_validate(given)


def loop(*prints: LoopPrint, **fields: Any) -> Decision:
    return block(scope_of_block="loop", loop=prints, **fields)


def test_a_block_of_everything_covers_every_call() -> None:
    assert block().covers(None)
    assert block().covers(OTHER, READ)
    assert not block(conditional=True).covers(UNKNOWN), "a loop that nobody can recognise is not complete"


def test_a_block_of_a_loop_covers_the_input_that_continues_it_and_no_other() -> None:
    decision = loop(LoopPrint(canon=LOOPING.canon))
    assert decision.covers(LOOPING)
    assert not decision.covers(OTHER)


def test_the_same_input_after_another_action_is_no_loop() -> None:
    """`ok` after writing file 4 is not `ok` after writing file 3 again."""
    decision = loop(LoopPrint(canon=LOOPING.canon, action=SEARCH.canon))
    assert decision.covers(LOOPING, SEARCH)
    assert not decision.covers(LOOPING, READ)
    assert not decision.covers(LOOPING)


def test_a_loop_of_actions_covers_whatever_the_action_brings() -> None:
    decision = loop(LoopPrint(action=SEARCH.canon))
    assert decision.covers(OTHER, SEARCH)
    assert not decision.covers(OTHER, READ)


def test_every_step_of_a_cycle_is_covered() -> None:
    decision = loop(LoopPrint(canon=LOOPING.canon), LoopPrint(canon=OTHER.canon))
    assert decision.covers(LOOPING)
    assert decision.covers(OTHER)
    assert not decision.covers(READ)


@pytest.mark.parametrize("shown", [None, UNKNOWN])
def test_a_call_that_does_not_show_its_input_is_covered_unless_the_loop_still_has_to_close(
    shown: Fingerprint | None,
) -> None:
    assert loop(LoopPrint(canon=LOOPING.canon)).covers(shown)
    assert not loop(LoopPrint(canon=LOOPING.canon), conditional=True).covers(shown)


def test_an_empty_loop_covers_nothing_that_is_shown() -> None:
    assert not loop().covers(LOOPING)
    assert not loop(LoopPrint()).covers(LOOPING)


def text(word: str = "red") -> str:
    return " ".join(f"the {word if i == 40 else 'grey'} house number {i} stands in its street" for i in range(200))


def test_a_loop_found_by_nearness_covers_what_is_near_it() -> None:
    seen = fingerprint(text())
    decision = loop(LoopPrint(near=seen.near, size=seen.size), max_distance=3)
    assert decision.covers(fingerprint(text("blue")))
    assert not decision.covers(fingerprint(text()[::-1]))


def test_what_grows_by_a_turn_is_near_in_bits_and_yet_no_repetition() -> None:
    seen = fingerprint(text())
    grown = fingerprint(text() + " and the next answer of the user follows here at some length, as it does in a talk.")
    assert not loop(LoopPrint(near=seen.near, size=seen.size), max_distance=3).covers(grown)


def test_a_short_text_is_near_nothing() -> None:
    seen = fingerprint(text())
    assert not loop(LoopPrint(near=seen.near, size=seen.size), max_distance=16).covers(LOOPING)

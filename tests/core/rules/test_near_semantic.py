"""near.semantic: the same action under another name, and the same came of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from spanfuse_processor.otlp.synonyms import load_synonyms
from spanfuse_schemas.wording import meaning, use_synonyms
from tests.support.agents import play, policy, tool_loop

ON = policy(near={"semantic": True})
ROW: list[tuple[str, Any, str]] = [
    ("delete_line", {"line": 5}, "no such line"),
    ("remove_line", {"line": 5}, "no such line"),
    ("deleteLine", {"line": 5}, "no such line"),
    ("remove_line", {"line": 5}, "no such line"),
]
SAME = {"remove": "delete"}


@pytest.fixture
def synonyms() -> Iterator[None]:
    use_synonyms(lambda word: SAME.get(word, word))
    yield
    use_synonyms(None)


@pytest.mark.usefixtures("synonyms")
def test_the_fourth_of_one_meaning_is_refused() -> None:
    run = play(tool_loop(ROW), ON)
    assert (run.rules, [d.evidence.count for d in run.detections]) == (["near.semantic"], [3])
    assert (run.rule, run.blocked_at) == ("near.semantic", 4)


@pytest.mark.usefixtures("synonyms")
def test_two_are_none_and_the_count_is_that_of_repeats() -> None:
    assert play(tool_loop(ROW[:2]), ON).quiet
    assert play(tool_loop(ROW), policy(near={"semantic": True}, repeat_no_progress={"count": 5})).quiet


@pytest.mark.usefixtures("synonyms")
def test_another_number_another_result_or_news_between_is_work() -> None:
    numbers = [(n, {"line": i}, r) for i, (n, _, r) in enumerate(ROW)]
    results = [(n, a, f"{i} lines left in the file") for i, (n, a, _) in enumerate(ROW)]
    news = [s for i, step in enumerate(ROW) for s in (step, ("read", {"path": f"f{i}"}, f"the text of {i}"))]
    for steps in (numbers, results, news):
        assert play(tool_loop(steps), ON).quiet


def test_it_is_off_unless_asked_for_and_then_calls_say_nothing_of_meaning() -> None:
    assert meaning("delete_line", {"line": 5}) == ""
    assert all(call.meaning == "" for call in tool_loop(ROW))


@pytest.mark.usefixtures("synonyms")
def test_its_mode_is_that_of_near() -> None:
    assert play(tool_loop(ROW)).quiet
    assert play(tool_loop(ROW), policy(near={"semantic": True, "mode": "off"})).quiet


@pytest.fixture(scope="module")
def real() -> Any:
    return load_synonyms()


@pytest.mark.parametrize(
    "pair", ["delete remove", "folder directory", "begin start", "create make", "buy purchase", "get obtain"]
)
def test_the_model_knows_words_that_mean_the_same(real: Any, pair: str) -> None:
    a, b = pair.split()
    assert real(a) == real(b)


OPPOSITES = """
get set|open close|enable disable|read write|add remove|insert delete|create delete|create destroy|start stop|lock unlock
increase decrease|raise lower|push pull|upload download|show hide|grant revoke|accept reject|allow deny|buy sell
import export|encrypt decrypt|up down|left right|list get|send receive|load save|attach detach|connect disconnect
mount unmount|next previous|first last|min max|north south|credit debit|pause resume|subscribe unsubscribe
install uninstall|before after|input output|source target|parent child|dev prod|read delete|activate deactivate
follow unfollow|undo redo|in out|edit delete|cat dog|paris london|red blue|alice bob|monday tuesday|hotel flight
"""


@pytest.mark.parametrize("pair", OPPOSITES.replace("\n", "|").strip("|").split("|"))
def test_it_keeps_opposites_and_things_of_one_kind_apart(real: Any, pair: str) -> None:
    a, b = pair.split()
    assert real(a) != real(b)


def test_what_it_does_not_know_stands_for_itself(real: Any) -> None:
    assert real("frobnicate") == "frobnicate"
    assert real("5") == "5"

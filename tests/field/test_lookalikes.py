"""Work that looks like a loop, and loops that look like work."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.agents import llm, play, tool_loop

TEXT = "a result of some length, so that it is no mere acknowledgement: nothing was found for it in any place"
LONG = TEXT * 2
Steps = list[tuple[str, Any, str]]


def asks(*contents: tuple[str, str]) -> list[Any]:
    messages = [[{"role": role, "content": text} for role, text in (("system", s), ("user", u))] for s, u in contents]
    return [llm(both, {"role": "assistant", "content": f"answer {i}"}, at=2 * i) for i, both in enumerate(messages)]


def test_the_same_question_about_another_document_in_the_system_message_is_another_question() -> None:
    documents = [
        (f"You summarise. The document: chapter {name}, of tides and moss.", "Summarise it.") for name in "abcdefgh"
    ]
    assert play(asks(*documents)).quiet


def test_the_same_question_about_the_same_document_is_not() -> None:
    assert play(asks(*[("You summarise. The document: chapter a.", "Summarise it.")] * 6)).rule == "repeat.prompt"


BATCHES: dict[str, Steps] = {
    "days": [("weather", {"city": "Porto", "date": f"2026-03-{d:02d}"}, LONG) for d in range(1, 20)],
    "short names": [
        ("news", {"query": f"latest quarterly results of {n}"}, LONG) for n in ("IBM", "SAP", "BMW", "ABB", "EON")
    ],
    "names alike": [
        ("find", {"query": f"open invoices of {n} this year"}, LONG)
        for n in ("Martin", "Martinez", "Martinson", "Marti")
    ],
    "languages": [
        ("say", {"text": "good morning to everyone here", "lang": c}, LONG) for c in ("de", "fr", "it", "es", "pt")
    ],
    "queries": [
        ("sql", {"q": f"select name from {t} where active"}, "Error: no such table")
        for t in ("users", "user", "accounts", "account", "members")
    ],
}


@pytest.mark.parametrize("batch", BATCHES)
def test_a_batch_is_work(batch: str) -> None:
    assert play(tool_loop(BATCHES[batch], every=2)).blocked_at is None


def test_what_was_cut_within_its_arguments_equals_nothing() -> None:
    cut = [("write", {"path": "a.py", "text": f"{'x' * 50}… [truncated]"}, "done")] * 8
    assert play(tool_loop(cut, every=2)).quiet


def test_files_whose_names_a_tool_prints_are_listed_without_a_stop() -> None:
    listed = [("ls", {"path": f"/srv/data/{name}.csv"}, f"/srv/data/{name}.csv") for name in "abcdefg"]
    assert play(tool_loop(listed, every=2)).blocked_at is None


def test_jumping_about_in_a_file_is_never_stopped_while_its_pages_are_new() -> None:
    offsets = [0, 100, 200, 300, 50, 150, 250, 350, 20, 120, 220, 320, 70, 170, 270]
    jumps = [("read", {"path": "f", "offset": o, "limit": 40}, f"{TEXT}, from line {o}") for o in offsets]
    assert play(tool_loop(jumps, every=2)).blocked_at is None


def test_a_batch_whose_items_all_fail_alike_is_nudged_at_most() -> None:
    missing = [("reserve", {"room": "blue", "slot": i}, "Error: the slot is taken") for i in range(20)]
    run = play(tool_loop(missing, every=2))
    assert (run.blocked_at, {d.action for d in run.detections}) == (None, {"nudge"})


def test_an_edit_that_fails_whatever_it_says_while_the_file_is_read_again_is_a_loop() -> None:
    steps: Steps = []
    for i in range(20):
        steps.append(
            ("edit", {"path": "a.py", "old": f"line {i} as I recall it"}, "Error: string to replace not found")
        )
        steps.append(("read", {"path": "a.py"}, LONG))
    assert play(tool_loop(steps, every=2)).rule == "repeat.no_progress"


def test_an_answer_that_does_not_parse_is_nudged_however_the_agent_apologises() -> None:
    history: list[dict[str, Any]] = [{"role": "user", "content": "Begin."}]
    calls = []
    for i in range(12):
        calls.append(
            llm(history, {"role": "assistant", "content": f"I am sorry, attempt by way {chr(97 + i)}"}, at=2 * i)
        )
        history = [
            *history,
            {"role": "assistant", "content": f"I am sorry, attempt by way {chr(97 + i)}"},
            {"role": "user", "content": "Error: could not parse your answer as JSON"},
        ]
    assert "repeat.error" in play(calls).rules

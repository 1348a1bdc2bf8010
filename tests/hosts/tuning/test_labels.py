"""What people say of sessions: labels in files, and what marks a session as good."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spanfuse_processor.errors import ConfigError
from spanfuse_processor.hosts.tuning.labels import Label, read_labels
from spanfuse_processor.hosts.tuning.markers import Marker, marked, profiled
from tests.support.agents import prompt


def written(folder: Path, *lines: dict[str, Any] | str, name: str = "labels.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(f"{x if isinstance(x, str) else json.dumps(x)}\n" for x in lines), encoding="utf-8")
    return path


def test_a_label_says_what_a_session_was_and_from_where_on_it_ran_away(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {"session": "a", "label": "runaway", "onset": 4, "block_at": 6, "who": "dana"},
        "",
        {"session": "b", "label": "good"},
        {"session": "c", "label": "either"},
    )
    found = read_labels([path])
    assert {name: label.label for name, label in found.items()} == {"a": "runaway", "b": "good", "c": "either"}
    assert (found["a"].onset, found["a"].wasted_from) == (4, 6)


@pytest.mark.parametrize(
    ("said", "label"),
    [("yes", "runaway"), (True, "runaway"), ("no", "good"), (False, "good"), ("nudge", "either")],
)
def test_files_that_answer_whether_it_is_a_runaway_are_read_as_well(said: object, label: str) -> None:
    assert Label.model_validate({"session": "s", "runaway": said, "onset": None, "kind": "none"}).label == label


@pytest.mark.parametrize(
    ("label", "first"),
    [({}, 0), ({"onset": 3}, 3), ({"onset": 3, "block_at": 5}, 5), ({"block_at": 2}, 2)],
)
def test_calls_are_wasted_from_the_one_that_should_have_been_refused_else_from_where_it_began(
    label: dict[str, int], first: int
) -> None:
    assert Label(session="s", label="runaway", **label).wasted_from == first


def test_every_bad_line_is_told_with_its_place(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "{",
        {"session": "a"},
        {"session": "b", "label": "bad"},
        {"session": "c", "label": "good"},
        {"session": "c", "label": "runaway"},
        {"session": "d", "label": "runaway", "onset": 5, "block_at": 2},
    )
    with pytest.raises(ConfigError) as raised:
        read_labels([path])
    assert [line.split(":")[1] for line in raised.value.problems] == ["1", "2", "3", "5", "6"]
    assert "'c' was labelled otherwise before" in raised.value.problems[3]


def test_the_same_label_twice_is_no_problem(tmp_path: Path) -> None:
    line = {"session": "a", "label": "good"}
    assert set(read_labels([written(tmp_path, line), written(tmp_path, line, name="more.jsonl")])) == {"a"}


def test_no_more_than_twenty_bad_lines_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        read_labels([written(tmp_path, *["{"] * 30)])
    assert len(raised.value.problems) == 21
    assert raised.value.problems[-1] == "… and 10 more bad lines"


CALLS = [
    prompt("one", session="a", agent="checkout", finish_reason="tool_calls"),
    prompt("two", session="a", agent="helper", finish_reason="stop", model="m"),
    prompt("one", session="b", agent="survey", team="t", finish_reason="length"),
    prompt("one", session="c", agent="checkout", finish_reason="stop", error_type="Timeout"),
]


@pytest.mark.parametrize(
    ("markers", "good"),
    [
        ([], ""),
        (["finish=stop"], "a"),
        (["finish=stop,length"], "ab"),
        (["agent=check*"], "ac"),
        (["agent=check*", "finish=stop"], "a"),
        (["session=b", "team=t"], "b"),
        (["model=m"], "a"),
    ],
)
def test_markers_say_which_sessions_are_taken_for_good_and_all_of_them_have_to_hold(
    markers: list[str], good: str
) -> None:
    found = marked(profiled(CALLS), [Marker.read(one) for one in markers])
    assert "".join(found) == good
    assert {label.label for label in found.values()} <= {"good"}


def test_a_file_may_list_the_sessions(tmp_path: Path) -> None:
    (tmp_path / "ids").write_text("b\n\nc \nelse\n", encoding="utf-8")
    assert set(marked(profiled(CALLS), [Marker.read(f"sessions={tmp_path / 'ids'}")])) == {"b", "c"}


@pytest.mark.parametrize("text", ["finish", "finish=", "colour=red", ""])
def test_what_marks_nothing_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="marks no session"):
        Marker.read(text)

"""The comparison with peers: sessions that adapters are shown, how they are asked, and how verdicts are scored."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench import by_size, fleet
from bench.core import calls
from bench.peers import __main__ as command
from bench.peers import environment
from bench.peers.adapter import Adapter, Died, Verdicts, ask
from bench.peers.messages import chat, steps
from bench.peers.protocol import Call, Step, before_each_call, median_us, texts
from bench.peers.score import Label, Score, load_labels, score, stopped
from bench.peers.sessions import name_of, read, recordings
from bench.peers.table import as_markdown, as_text, notes, rows
from bench.report import Figure, Unmeasured
from tests.support.recorded import chat_span, healthy, repeater, request, write_lines

FAKE = """
import json, sys
print(json.dumps({"peer": "fake", "version": "9"}), flush=True)
for line in sys.stdin:
    texts = [call["messages"][-1]["content"] for call in json.loads(line)["calls"]]
    if "boom" in texts:
        sys.exit("bad input")
    again = [n for n, text in enumerate(texts) if text in texts[:n]]
    print(json.dumps({"refused": again[0] if again else None}), flush=True)
"""
"""An adapter that refuses the first text that comes again, and dies of one."""
NOISE = random.Random(1).randbytes(100_000).hex()
"""Longer than what an inflater reads ahead."""


@pytest.fixture
def fake(tmp_path: Path) -> list[str]:
    """How the fake adapter is started."""
    script = tmp_path / "fake.py"
    script.write_text(FAKE)
    return [sys.executable, str(script)]


def sessions_of(path: Path) -> dict[str, list[Call]]:
    with read(path) as sessions:
        return dict(sessions)


def tool_turn() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A reply with two tool calls, and the input of the next call with both results, the second first."""
    calls = [{"type": "tool_call", "id": f"c{n}", "name": "look", "arguments": json.dumps({"at": n})} for n in (1, 2)]
    reply = [{"role": "assistant", "parts": calls}]
    results = [
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": f"c{n}", "response": f"saw {n}"}]}
        for n in (2, 1)
    ]
    return reply, [{"role": "user", "content": "go"}, *reply, *results]


def test_sessions_are_those_of_a_replay(tmp_path: Path) -> None:
    mixed = [r for pair in zip(repeater(3), healthy(3), strict=True) for r in pair]
    found = sessions_of(write_lines(tmp_path / "r.otlp.jsonl.gz", mixed))
    assert {name: len(calls) for name, calls in found.items()} == {"s": 3, "h": 3}
    first = found["s"][0]
    assert first["messages"] == [{"role": "user", "content": "What is the weather in Tokyo?"}]
    assert (first["model"], first["failed"]) == ("gpt-4o-mini", False)
    assert found["s"][1]["start_s"] == first["start_s"] + 1
    assert first["end_s"] > first["start_s"]
    assert first["cost_usd"] > 0


def test_a_span_delivered_twice_is_one_call(tmp_path: Path) -> None:
    found = sessions_of(write_lines(tmp_path / "r.otlp.jsonl", ["garbage", *repeater(3), *repeater(3)]))
    assert len(found["s"]) == 3


def test_a_file_that_ends_early_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "r.otlp.jsonl.gz", [*repeater(3), request(chat_span(9, [("user", NOISE)]))])
    path.write_bytes(path.read_bytes()[:-100])
    assert len(sessions_of(path)["s"]) == 3


def test_what_a_reply_did_comes_with_what_the_next_call_says_of_it(tmp_path: Path) -> None:
    spans = [chat_span(n, [("user", f"question {n}")], answer=f"reply {n}") for n in range(2)]
    first, last = sessions_of(write_lines(tmp_path / "r.otlp.jsonl", [request(span) for span in spans]))["s"]
    assert first["steps"] == [Step(tool="", arguments="reply 0", result="question 1")]
    assert last["steps"] == [Step(tool="", arguments="reply 1", result="")]


def test_messages_take_the_form_of_openai_chat() -> None:
    _, after = tool_turn()
    user, assistant, *results = chat(after)
    assert user == {"role": "user", "content": "go"}
    assert [c["function"] for c in assistant["tool_calls"]] == [
        {"name": "look", "arguments": {"at": 1}},
        {"name": "look", "arguments": {"at": 2}},
    ]
    assert [(r["role"], r["tool_call_id"], r["content"]) for r in results] == [
        ("tool", "c2", "saw 2"),
        ("tool", "c1", "saw 1"),
    ]


def test_results_of_anthropic_blocks_are_tool_messages_too() -> None:
    block = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "42"}]}
    assert chat([{"role": "user", "content": [block]}]) == [{"role": "tool", "content": "42", "tool_call_id": "t"}]


def test_results_belong_to_tool_calls_by_id() -> None:
    reply, after = tool_turn()
    assert [(s["arguments"], s["result"]) for s in steps(chat(reply), chat(after))] == [
        ({"at": 1}, "saw 1"),
        ({"at": 2}, "saw 2"),
    ]


def test_a_tool_call_without_a_result_brought_all_that_is_new() -> None:
    reply, _ = tool_turn()
    found = steps(chat(reply[:1]), [{"role": "user", "content": "task, step 2, saw 1, saw 2"}])
    assert [s["result"] for s in found] == ["task, step 2, saw 1, saw 2"] * 2


def test_a_reply_that_was_not_captured_is_read_from_the_next_call() -> None:
    _, after = tool_turn()
    assert [s["result"] for s in steps([], chat(after))] == ["saw 1", "saw 2"]


def test_an_adapter_is_asked_session_by_session(tmp_path: Path, fake: list[str]) -> None:
    path = write_lines(tmp_path / "r.otlp.jsonl", [*repeater(4), *healthy(3)])
    with read(path) as sessions:
        verdicts = ask(fake, sessions)
    assert (verdicts.version, verdicts.refused, verdicts.calls) == ("9", {"s": 1, "h": None}, {"s": 4, "h": 3})
    assert verdicts.crashed == []


def test_an_adapter_that_dies_is_started_again_and_the_session_counts_as_let_through(
    tmp_path: Path, fake: list[str]
) -> None:
    fatal = request(chat_span(0, [("user", "boom")], session="f"))
    path = write_lines(tmp_path / "r.otlp.jsonl", [fatal, *repeater(4)])
    with read(path) as sessions:
        verdicts = ask(fake, sessions)
    assert (verdicts.refused, verdicts.crashed) == ({"f": None, "s": 1}, ["f"])


def test_an_adapter_that_does_not_start_says_why() -> None:
    with pytest.raises(Died, match="no such peer"):
        ask([sys.executable, "-c", "import sys; sys.exit('no such peer')"], [])


def test_an_adapter_that_does_not_answer_is_stopped() -> None:
    silent = [sys.executable, "-c", 'import sys; print(\'{"version": "1"}\', flush=True); sys.stdin.read()']
    with Adapter(silent, timeout_s=0.5) as adapter, pytest.raises(Died):
        adapter.first_refused([])


def _call(*results: str) -> Call:
    made = [Step(tool="look", arguments={}, result=result) for result in results]
    return Call(start_s=0, end_s=1, model="m", failed=False, cost_usd=0, messages=[], steps=made)


def test_an_observer_of_steps_refuses_the_call_after_the_one_that_it_objects_to() -> None:
    seen: list[str] = []

    def observe(step: Step) -> bool:
        seen.append(step["result"])
        return step["result"] == "bad"

    assert before_each_call([_call("a"), _call("bad", "b"), _call("c")], observe) == 2
    assert seen == ["a", "bad", "b"]
    assert before_each_call([_call("a"), _call("bad")], observe) is None


def test_a_hot_path_is_timed_on_different_texts_of_the_length_asked_for() -> None:
    shown: list[list[str]] = []

    def hot_path(some: list[str]) -> Callable[[], None]:
        shown.append(some)
        return lambda: None

    assert median_us(hot_path, 200) >= 0
    assert {len(text) for text in shown[0]} == {200}
    assert len(set(texts(200))) == len(texts(200))


LABELS = {
    label.session: label
    for label in (
        Label("late", "yes", onset=2, block_at=4),
        Label("early", "yes", onset=2, block_at=4),
        Label("missed", "yes", onset=2, block_at=4),
        Label("prompt", "yes", onset=2, block_at=4),
        Label("word", "nudge"),
        Label("well", "no"),
        Label("stopped", "no"),
        Label("elsewhere", "no"),
    )
}
REFUSED = {"late": 6, "early": 1, "missed": None, "prompt": 3, "word": 5, "well": None, "stopped": 9}


def test_every_kind_of_stop_is_counted() -> None:
    verdicts = Verdicts(refused=REFUSED, calls=dict.fromkeys(REFUSED, 10))
    assert score([verdicts], LABELS) == Score(
        runaways=4,
        stopped=2,
        early=1,
        missed=1,
        healthy=2,
        healthy_stopped=1,
        nudges=1,
        nudges_stopped=1,
        wasted=2 + 6 + 0,
        unguarded=4 * 6,
        missing=1,
    )


def test_a_stop_after_the_last_call_is_none() -> None:
    verdicts = Verdicts(refused={"well": 10, "late": 10}, calls={"well": 10, "late": 10})
    found = score([verdicts], LABELS)
    assert (found.healthy_stopped, found.missed, stopped(verdicts)) == (0, 1, 0)


def test_labels_are_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    lines = [
        {"session": "a", "runaway": "yes", "kind": "repeat", "onset": 1, "block_at": 3},
        {"session": "b", "runaway": "no", "onset": None, "block_at": None},
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    assert load_labels(path) == {"a": Label("a", "yes", 1, 3), "b": Label("b", "no")}


@pytest.mark.parametrize("line", ['{"session": "a"}', '{"session": "a", "runaway": "yes"}', "{"])
def test_a_line_that_is_no_label_is_told(tmp_path: Path, line: str) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(line)
    with pytest.raises(ValueError, match=r"labels\.jsonl:1|Expecting"):
        load_labels(path)


def test_the_table_has_a_row_a_system_and_a_column_for_each_file_without_labels() -> None:
    scored = Verdicts(refused=REFUSED, calls=dict.fromkeys(REFUSED, 10))
    other = Verdicts(refused={"x": 1, "y": None}, calls={"x": 3, "y": 3}, crashed=["y"])
    results = {"one": {"labelled": scored, "other": other}}
    table = rows(results, LABELS)
    assert table == [
        [
            "",
            "runaways stopped (of 4)",
            "healthy stopped (of 2)",
            "too early",
            "calls wasted after block_at (of 24)",
            "nudge cases stopped (of 1)",
            "other: sessions stopped (of 2)",
        ],
        ["one", "2", "1", "1", "8", "1", "1"],
    ]
    assert as_markdown(table).splitlines()[2] == "| one | 2 | 1 | 1 | 8 | 1 | 1 |"
    assert as_text(table).splitlines()[-1].split() == ["one", "2", "1", "1", "8", "1", "1"]
    assert [note.partition(":")[0] for note in notes(results, LABELS)] == [
        "one",
        "1 labels belong to no session of a file that is scored.",
    ]


def test_recordings_are_the_otlp_files_of_a_folder(tmp_path: Path) -> None:
    for name in ("b.otlp.jsonl.gz", "a.otlp.jsonl", "labels.jsonl", "notes.txt"):
        (tmp_path / name).touch()
    assert [name_of(path) for path in recordings(tmp_path)] == ["a", "b"]


def test_our_own_row_is_that_of_spanfuse_replay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_lines(tmp_path / "r.otlp.jsonl", [*repeater(6), *healthy(6)])
    verdicts = tmp_path / "verdicts.json"
    assert command.main([str(tmp_path), "--only", "spanfuse", "--markdown", "--json", str(verdicts)]) == 0
    assert "| r: sessions stopped (of 2) |\n" in capsys.readouterr().out
    assert json.loads(verdicts.read_text())["spanfuse"]["r"]["refused"] == {"s": 3, "h": None}


def test_a_system_that_cannot_be_run_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def offline() -> Path:
        raise environment.NoPeers("no network")

    monkeypatch.setattr(environment, "python", offline)
    write_lines(tmp_path / "r.otlp.jsonl", repeater(2))
    assert command.main([str(tmp_path), "--only", "looplet"]) == 1
    assert "looplet: left out: no network" in capsys.readouterr().err


def test_a_folder_without_recordings_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as stopped_with:
        command.main([str(tmp_path)])
    assert stopped_with.value.code == 2


def test_a_peer_that_cannot_be_installed_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "PINS", {"no such name": "1"})
    with pytest.raises(environment.NoPeers, match="no such name"):
        environment.python(tmp_path / "peers")


def test_the_cost_by_size_has_a_row_for_each_peer_even_where_none_can_be_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline() -> Path:
        raise environment.NoPeers("no network")

    monkeypatch.setattr(environment, "python", offline)
    monkeypatch.setattr(by_size, "SIZES", (200,))
    found = list(by_size.run())
    assert [type(figure) for figure in found] == [Figure] * 2 + [Unmeasured] * len(environment.PINS)
    assert "not measured: the peers cannot be installed: no network" in str(found[-1])


def test_a_fleet_keeps_a_bounded_number_of_states_and_goes_on_from_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in {"SESSIONS": 600, "PART": 300, "CHUNK": 100, "RETURN_AFTER": 50, "LIVE": 20, "KEPT": 100}.items():
        monkeypatch.setattr(fleet, name, size)
    first, last, memory = fleet.run(calls(2))
    assert first.value > 0
    assert last.baseline == first.value
    assert memory.unit == "MiB"
    states = fleet.States()
    for number in range(200):
        states.get(f"s{number}").calls = 1
    assert states.get("s150").calls == 1
    assert states.get("s0").calls == 0
    assert states.restored == 1

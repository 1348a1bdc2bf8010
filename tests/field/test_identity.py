"""Field reports: whose a call is, and what is known of it where little is said."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from spanfuse_processor.core.pricing import Prices
from spanfuse_processor.hosts.inspect import row, verdicts
from spanfuse_processor.otlp.normalise import Normaliser
from spanfuse_processor.otlp.whose import Whose
from tests.core.test_belated import Host
from tests.otlp.fixtures import NOW_NS, SECOND, TRACE, call, chat, json_bytes, normaliser, says, span
from tests.support.agents import policy
from tests.support.replays import replay_files

TASK = [says("Where is my parcel?")]
SECRET = "secret-123"


@pytest.mark.parametrize(
    ("attributes", "session", "source"),
    [
        ({"session.id": "a", "gen_ai.conversation.id": "b"}, "a", "explicit"),
        ({"gen_ai.conversation.id": "b", "metadata": '{"thread_id": "c"}'}, "b", "explicit"),
        ({"metadata": '{"thread_id": "c"}'}, "c", "explicit"),
        ({}, f"trace:{TRACE}", "trace"),
    ],
)
def test_r083_the_session_is_the_first_of_a_documented_row_of_keys_and_says_where_it_comes_from(
    attributes: dict[str, Any], session: str, source: str
) -> None:
    """Session id, conversation id, an id of the thread, at last the trace."""
    found = call(chat(attributes=attributes))
    assert (found.session, found.session_source) == (session, source)
    (told,) = (row(verdict) for verdict in verdicts([chat(attributes=attributes)], normaliser()))
    assert (told["session"], told["session_source"]) == (session, source)


def test_r084_calls_that_came_before_their_session_was_known_are_its_calls(tmp_path: Path) -> None:
    """The conversation's id stands on the agent's span alone, which ends last; the loop was seen without it."""
    lines = [json_bytes(chat(id=n, parent=1, at=n, lasts=0.5, input=TASK)) for n in range(2, 6)]
    last = span({"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "S"}, id=1, lasts=60, kind=1)
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"\n".join([*lines, json_bytes(last)]))
    report = replay_files(policy(), [path])
    assert {name: found.calls for name, found in report.sessions.items() if found.calls} == {"S": 4}
    assert report.sessions["S"].blocked_at == 3
    assert report.sessions["S"].rule == "repeat.prompt"


def test_r086_two_services_that_use_one_id_are_two_sessions_where_ids_are_said_to_be_each_services_own() -> None:
    """Ids from a clock or a name collide; agents of several services may share one, too, so that it is said and not guessed."""
    hosts = Host(), Host()
    hosts[1].normaliser = Normaliser(Prices(), Whose(within=["service.name"]))
    for host in hosts:
        for number in range(1, 5):
            service = {"service.name": f"svc-{number % 2}"}
            host.take([chat(id=number, at=number, attributes={"session.id": "conv-1"}, resource=service)])
    assert {key: state.calls for key, state in hosts[0].states.items()} == {"conv-1": 4}
    assert {key: state.calls for key, state in hosts[1].states.items()} == {"svc-0/conv-1": 2, "svc-1/conv-1": 2}


def test_r087_content_that_was_cut_is_accepted_and_equals_nothing() -> None:
    """Cut at an attribute limit it is no JSON any more: five such calls are five calls and no loop."""
    host = Host()
    for number in range(1, 6):
        cut = '[{"role":"user","parts":[{"con'
        host.take([chat(id=number, at=number, input=cut, output=cut, attributes={"session.id": "s"})])
    assert host.states["s"].calls == 5
    assert host.detections == []
    assert host.normaliser.counters["failed"] == 0


def test_r088_an_agent_without_content_is_said_to_be_watched_by_its_structure() -> None:
    """Each of its calls says so, and nothing is blocked for want of content."""
    host, spans = Host(), []
    for number in range(6):
        counted = {"gen_ai.usage.input_tokens": 812, "gen_ai.usage.output_tokens": 40, "session.id": "s"}
        asked = {**counted, "gen_ai.response.finish_reasons": ["tool_calls"]}
        tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search", "session.id": "s"}
        spans += [
            chat(id=2 * number + 1, at=3 * number, attributes=asked),
            span(tool, id=2 * number + 2, at=3 * number + 1.5, name="execute_tool search", kind=1),
        ]
    for one in spans:
        host.take([one])
    told = [row(verdict) for verdict in verdicts(spans, normaliser())]
    assert {(found["content"], found["counted"]) for found in told} == {("structure", True)}
    assert {found["tool_name"] for found in told if found["kind"] == "tool"} == {"search"}
    assert all(detection.action != "block" for detection in host.detections)


def test_r089_no_text_leaves_ingest(caplog: pytest.LogCaptureFixture) -> None:
    """Neither into a topic nor into a state, a detection, a decision or a log, though the instrumentation captured it all."""
    host, history = Host(), [says(f"My word is {SECRET}")]
    caplog.set_level(logging.DEBUG)
    left = ""
    for number in range(1, 7):
        call_id, arguments = f"c{number}", {"q": SECRET, "page": SECRET}
        asked = {"type": "tool_call", "id": call_id, "name": "search", "arguments": arguments}
        reply = {"role": "assistant", "parts": [asked]}
        who = {"session.id": "s", "gen_ai.system_instructions": json.dumps([{"type": "text", "content": SECRET}])}
        spans = [chat(id=number, at=number, input=history, output=[reply], attributes=who)]
        tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search", "session.id": "s"}
        carried = {"gen_ai.tool.call.arguments": json.dumps(arguments), "gen_ai.tool.call.result": f"{SECRET} " * 9}
        spans.append(span({**tool, **carried}, id=100 + number, at=number + 0.5, lasts=0.1, error=SECRET))
        left += str(normaliser().batch(spans, NOW_NS + 60 * SECOND).to_json())
        host.take(spans)
        answer = {"type": "tool_call_response", "id": call_id, "response": f"{SECRET} " * 9}
        history = [*history, reply, {"role": "tool", "parts": [answer]}]
    assert host.detections, "something was found that might quote it"
    left += "".join(str(found.to_json()) for found in (*host.detections, *host.decisions))
    left += "".join(str(state.snapshot()) for state in host.states.values()) + caplog.text
    assert "search" in left
    assert SECRET not in left


def test_r097_a_clock_that_runs_ahead_is_set_back_to_the_brokers() -> None:
    """The call counts when it was received, as long as it lasted; a call that began long ago is no error."""
    received_ns, using = NOW_NS + 2 * SECOND, normaliser()
    (ahead,) = using.batch([chat(at=27 * 3600, lasts=1)], received_ns).calls
    assert (ahead.start_ns, ahead.end_ns) == (received_ns - SECOND, received_ns)
    assert using.counters["clamped"] == 1
    (long,) = using.batch([chat(id=2, at=-20 * 3600, lasts=20 * 3600)], received_ns).calls
    assert long.end_ns == NOW_NS
    assert using.counters["clamped"] == 1

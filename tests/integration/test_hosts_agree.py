"""One stream of spans, four hosts, one outcome: the core alone, replay, embedded and stream agree call for call.

Of scopes they agree on all sums, on what was said of each, and on what stands against it in the end. At which charge a rule
fires may differ, since charges of several partitions, and of batches packed otherwise, meet in another order; so the thresholds
here are such that the order does not decide whether it fires.
"""

from __future__ import annotations

import json
import random
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from spanfuse_processor.config import Config
from spanfuse_processor.hosts.reading import prices_of
from spanfuse_processor.otlp.decode import decode
from spanfuse_processor.otlp.normalise import Normaliser
from spanfuse_schemas import POLICY_KEY, CallBatch, Decision, Detection
from tests.client.waiting import wait_until
from tests.services.kafka_service import KafkaService
from tests.support.hosts import embedded
from tests.support.late import late_run
from tests.support.loops import in_loop
from tests.support.recorded import START_NS, attribute, chat_span, hash_of, request
from tests.support.replays import replay_files
from tests.support.stream import OTLP_SPANS, Totals, WorkerProcess, expected, fresh_topics, send, settled, totals, until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

SETTINGS: dict[str, Any] = {
    "service": {"mode": "enforce"},
    "detectors": {
        "agent.breaker": {"share": 0.1},
        "fanout": {"max_agents": 1, "window_s": 3600},
        "retries": {"count": 10, "share": 0.01, "window_s": 600},
    },
    "budgets": {
        "session": {"limit_usd": 0.002},
        "session/tokens": {"limit_tokens": 20_000, "mode": "warn"},
        "user/steps": {"limit_steps": 8},
        "trace/steps": {"limit_steps": 20, "mode": "warn"},
        "agent/daily": {"limit_usd": 0.002, "period": "daily", "mode": "warn"},
        "global/hourly": {"limit_tokens": 50_000, "period": "hourly", "mode": "warn"},
    },
    "policies": [
        {
            "agent": "recorded",
            "rules": {"limits": {"max_steps": 15}, "breaker": {"cooldown_s": 20}, "errors": {"count": 3}},
        },
        {
            "agent": "break-agent-*",
            "rules": {"agent.breaker": {"mode": "block", "sessions": 2}, "breaker": {"cooldown_s": 3000}},
        },
    ],
}


def tool_span(number: int, session: str, tool: str, arguments: str, result: str) -> dict[str, Any]:
    """A tool execution."""
    start = START_NS + number * 10**9 + 5 * 10**8
    return {
        "traceId": f"{hash_of(session):032x}",
        "spanId": f"{hash_of(session, 500_000 + number):016x}",
        "name": f"execute_tool {tool}",
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + 10**7),
        "attributes": [
            attribute("gen_ai.operation.name", "execute_tool"),
            attribute("gen_ai.tool.name", tool),
            attribute("gen_ai.tool.call.arguments", arguments),
            attribute("gen_ai.tool.call.result", result),
            attribute("session.id", session),
        ],
    }


def with_history(number: int, turn: int, kind: str, session: str) -> list[dict[str, Any]]:
    """A turn of a tool-calling agent: the model call that hears of the last result and asks again, and the tool's span, which
    for one of two agents of the session is missing. `search` finds the same for a while, `break` fails anew each time."""
    found = "no rows" if turn % 8 else f"row {turn}"
    result = found if kind == "search" else f"Error: line {turn} is wrong"
    asked = [{"type": "tool_call", "id": "c", "name": kind, "arguments": {"q": "x", "request_id": f"r{turn}"}}]
    messages = [{"role": "user", "parts": [{"type": "text", "content": "Find it."}]}]
    if turn > 1:
        answer = {"type": "tool_call_response", "id": "c", "response": result}
        messages += [{"role": "assistant", "parts": asked}, {"role": "tool", "parts": [answer]}]
    span = chat_span(number, [], session=session, tokens=(10, 5))
    own = {"gen_ai.input.messages": messages, "gen_ai.output.messages": [{"role": "assistant", "parts": asked}]}
    kept = [a for a in span["attributes"] if a["key"] not in own]
    agent = f"{kind}-agent-{turn % 2}"
    span["parentSpanId"] = f"{hash_of(session, 999):016x}"
    span["attributes"] = [
        *kept,
        *(attribute(k, json.dumps(v)) for k, v in own.items()),
        attribute("gen_ai.agent.name", agent),
    ]
    if turn % 2:
        return [span]
    return [span, tool_span(number, session, kind, json.dumps({"q": "x", "request_id": f"r{turn}"}), result)]


def traffic() -> list[bytes]:
    """Export requests of sessions that work, repeat, cycle, fail, spend and poll, mixed, and of runs whose session comes to be
    known late; some requests come twice."""
    rnd, requests, turns = random.Random(11), [], dict[str, int]()
    for number in range(420):
        kind = rnd.choice(["work", "repeat", "cycle", "fail", "poll", "search", "break", "near"])
        session = f"{kind}-{rnd.randrange(3)}"
        turn = turns[session] = turns.get(session, 0) + 1
        if kind in ("search", "break"):
            requests.append(json.dumps(request(*with_history(number, turn, kind, session))).encode())
            continue
        text = {
            "repeat": "Are we there yet?",
            "near": f"Ask again, attempt {turn}.",
            "cycle": f"Look at side {turn % 2}.",
        }.get(kind, f"Ask {number} of {session}")
        span = chat_span(number, [("user", text)], session=session, tokens=(rnd.randrange(2000), 50))
        if kind == "fail":
            span["status"] = {"code": 2, "message": "overloaded"}
            span["attributes"].append(attribute("error.type", "503"))
        spans = [span]
        if kind == "poll":
            spans.append(tool_span(number, session, "poll", '{"job": 7}', "pending" if turn % 9 else f"{turn} %"))
        requests.append(json.dumps(request(*spans)).encode())
    requests += [data for number in range(6) for data in late_run(number)]
    return requests + requests[-70:] + requests[:10]


@pytest.fixture(scope="module")
def spans() -> list[bytes]:
    return traffic()


@pytest.fixture(scope="module")
def core(spans: list[bytes]) -> Totals:
    """What the core makes of them, alone."""
    config = Config.model_validate(SETTINGS)
    normaliser = Normaliser(prices_of(config.pricing))
    batches: list[CallBatch] = [normaliser.batch(decode(data, "json"), START_NS + 10**15) for data in spans]
    found = expected(batches, config.policy())
    wanted = ("repeat.prompt", "near.prompt", "repeat.no_progress", "near.no_progress", "cycle", "errors")
    fired = {json.loads(d)["rule"] for d in found.detections.values()}
    assert fired >= {*wanted, "budget.session", "limits.max_steps"}
    budgets = {f"budget.{name}" for name in ("user/steps", "trace/steps", "agent/daily", "global/hourly")}
    assert {rule for said in found.found.values() for rule, _, _ in said} == {
        "agent.breaker",
        "fanout",
        "retries",
        *budgets,
    }
    assert set(found.standing.values()) == {"agent.breaker", "budget.user/steps"}
    assert "budget.session/tokens" in fired
    assert [found.sessions[f"late-{k}"][0] for k in range(3)] == [8, 8, 8]
    assert found.charges["user:late-user-0"][0] == 8
    return found


def by_session(detections: list[Detection]) -> dict[str, list[tuple[Any, ...]]]:
    found: dict[str, list[tuple[Any, ...]]] = {}
    for d in sorted(detections, key=lambda d: (d.at_ns, d.id)):
        found.setdefault(d.session, []).append((d.rule, d.action, d.mode, d.call, d.conditional, d.message))
    return found


def test_replay_agrees_with_the_core(spans: list[bytes], core: Totals, tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    path.write_bytes(b"\n".join(spans))
    config = Config.model_validate(SETTINGS)
    report = replay_files(config.policy(), [path], config=config).to_dict()
    wanted = by_session([Detection.from_json(d) for d in core.detections.values()])
    found = {
        s["session"]: [
            (d["rule"], d["action"], d["mode"], d["call"], d["conditional"], d["message"]) for d in s["detections"]
        ]
        for s in report["sessions"]
    }
    # What was found of a trace before its session was known is told of the trace live, and listed with the session here.
    late = [(rule, action) for s, told in wanted.items() if s.startswith("trace:") for rule, action, *_ in told]
    assert late
    assert [(rule, action) for n in range(3) for rule, action, *_ in found.pop(f"late-{n}")] == late
    wanted = {s: told for s, told in wanted.items() if not s.startswith("trace:")}
    assert {s: sorted(d) for s, d in found.items() if d} == {s: sorted(d) for s, d in wanted.items()}
    assert {s["session"]: (s["calls"], s["cost_nano_usd"]) for s in report["sessions"]} == {
        session: (calls, cost) for session, (calls, cost, _) in core.sessions.items() if calls
    }
    said: dict[str, set[tuple[str, str, str]]] = {}
    for f in report["scopes"]:
        said.setdefault(f["scope"], set()).add((f["rule"], f["action"], ""))
    assert said == core.found
    assert listed(report) == listed_of(core)


def listed(lists: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Agents and models as they are listed."""
    return {
        f"{kind}:{row[kind]}": tuple(row[name] for name in ("calls", "cost_nano_usd", "sessions", "loops", "failures"))
        for kind in ("agent", "model")
        for row in lists[f"{kind}s"]
    }


def listed_of(core: Totals) -> dict[str, tuple[int, ...]]:
    """What the lists have to show."""
    return {
        key: tuple(sums[name] for name in ("calls", "cost_nano_usd", "sessions", "loops", "failures"))
        for key, sums in core.scopes.items()
        if key.startswith(("agent:", "model:"))
    }


def test_the_embedded_host_agrees_with_the_core(spans: list[bytes], core: Totals, tmp_path: Path) -> None:
    told: dict[tuple[str, int], str] = {}
    standing: dict[str, str] = {}
    with embedded(tmp_path, SETTINGS) as host, httpx.Client(base_url=host.api, timeout=20) as api:
        ready, done = threading.Event(), threading.Event()

        def listen() -> None:
            with httpx.stream("GET", f"{host.api}/v1/decisions/stream", timeout=30) as events:
                for line in events.iter_lines():
                    if line.startswith("event: ready"):
                        ready.set()
                    if line.startswith("data: {") and '"key"' in line and POLICY_KEY not in line:
                        decision: Decision = Decision.from_json(line[6:])
                        if decision.key.startswith("session:"):
                            told[decision.key, decision.epoch] = decision.to_json().decode()
                        else:
                            standing[decision.key] = decision.rule if decision.action == "block" else ""
                    if done.is_set():
                        return

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        assert ready.wait(20)
        with httpx.Client(timeout=20) as exporter:
            for data in spans:
                sent = exporter.post(
                    f"{host.otlp}/v1/traces", content=data, headers={"Content-Type": "application/json"}
                )
                assert sent.status_code == 200, sent.text
        wait_until(lambda: len(told) >= len(core.decisions), 20, "all decisions are told")
        done.set()
        found = api.get("/v1/detections", params={"limit": 10_000}).json()["detections"]
        own = {d["id"]: Detection.model_validate(d).to_json().decode() for d in found if not d.get("scope")}
        assert own == core.detections
        said: dict[str, set[tuple[str, str, str]]] = {}
        for d in found:
            if d.get("scope"):
                said.setdefault(d["scope"], set()).add((d["rule"], d["action"], d["session"]))
        assert said == core.found
        assert standing == core.standing
        assert listed(api.get("/v1/agents").json() | api.get("/v1/models").json()) == listed_of(core)
        assert told == core.decisions
        for session, (calls, cost, _) in core.sessions.items():
            answer = api.get(f"/v1/sessions/{session}")
            if not calls:  # all that was counted for the trace belongs to a session by now
                assert answer.status_code == 404
                continue
            state = answer.json()
            assert (state["calls"], state["cost_nano_usd"]) == (calls, cost), state


@in_loop
async def test_the_stream_host_agrees_with_the_core(
    spans: list[bytes], core: Totals, kafka: KafkaService, tmp_path: Path
) -> None:
    await fresh_topics(kafka.brokers)
    worker = WorkerProcess(tmp_path, kafka.brokers, dict(SETTINGS))
    worker.start()
    try:
        await until(lambda: worker.ready, "the worker is up")
        await send(kafka.brokers, OTLP_SPANS, ((0, data) for data in spans))
        await settled(kafka.brokers)
        assert worker.stop() == 0
        found = await totals(kafka.brokers)
        assert found.detections == core.detections
        assert found.decisions == core.decisions
        assert found.sessions == core.sessions
        assert found.charges == core.charges
        assert found.scopes == core.scopes
        assert found.found == core.found
        assert found.standing == core.standing
    finally:
        worker.kill()

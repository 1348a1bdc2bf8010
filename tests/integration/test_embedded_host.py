"""`spanfuse up` under real exporters, bad input, load and sudden death."""

from __future__ import annotations

import functools
import http.client
import json
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter

from spanfuse import Guard
from spanfuse_processor.cli.api import Api
from spanfuse_processor.errors import UnavailableError
from tests.client.waiting import wait_until
from tests.support.hosts import SPANFUSE, Deployment, embedded
from tests.support.recorded import START_NS, attribute, chat_span, repeater, request

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

ENFORCE = {"service": {"mode": "enforce"}}
JSON = "application/json"
PROTOBUF = "application/x-protobuf"


class Sender:
    """One connection to the receiver."""

    def __init__(self, host: Deployment) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(host.otlp).netloc, timeout=20)

    def send(self, body: dict[str, Any] | bytes, content_type: str = JSON) -> tuple[int, bytes]:
        """Post a request; its status and answer."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._connection.request("POST", "/v1/traces", data, {"Content-Type": content_type})
        response = self._connection.getresponse()
        return response.status, response.read()


def get(host: Deployment, path: str) -> Any:
    with Api(host.api) as api:
        return api.get(path)


def counts(host: Deployment) -> Any:
    return get(host, "/v1/status")["counts"]


def follow(
    host: Deployment, act: Callable[[], object], wanted: Callable[[str, dict[str, Any]], bool]
) -> list[tuple[str, dict[str, Any]]]:
    """The events of the stream up to the one that is wanted; `act` is done, on a thread, once the stream is ready."""
    seen: list[tuple[str, dict[str, Any]]] = []
    acting = threading.Thread(target=act)
    with Api(host.api) as api:
        for name, data, _ in api.events("/v1/decisions/stream"):
            seen.append((name, json.loads(data)))
            if name == "ready":
                acting.start()
            if wanted(*seen[-1]):
                break
    acting.join(30)
    return seen


def exporter(kind: str, host: Deployment, grpc_port: int) -> SpanExporter:
    if kind == "http":
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        return OTLPSpanExporter(f"{host.otlp}/v1/traces")
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter

    return GrpcExporter(f"127.0.0.1:{grpc_port}", insecure=True)


@pytest.mark.parametrize("kind", ["http", "grpc"])
def test_a_block_earned_by_the_exporters_of_opentelemetry_appears_on_the_stream(tmp_path: Path, kind: str) -> None:
    with embedded(tmp_path, ENFORCE) as host:
        grpc_port = get(host, "/v1/status")["ports"]["otlp_grpc"]
        provider = TracerProvider(resource=Resource({"service.name": "asker"}), shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(exporter(kind, host, grpc_port)))
        asking = functools.partial(ask_three_times, provider)
        seen = follow(host, asking, lambda name, data: name == "decision" and data["key"] == "session:live")
        provider.shutdown()
    assert [name for name, _ in seen[:2]] == ["policy", "ready"]
    assert (seen[-1][1]["action"], seen[-1][1]["rule"], seen[-1][1]["mode"]) == ("block", "repeat.prompt", "enforce")


def ask_three_times(provider: TracerProvider) -> None:
    tracer = provider.get_tracer("asker")
    asked = [{"role": "user", "parts": [{"type": "text", "content": "What is the weather in Tokyo?"}]}]
    for _ in range(3):
        with tracer.start_as_current_span("chat gpt-4o-mini") as span:
            span.set_attribute("gen_ai.operation.name", "chat")
            span.set_attribute("gen_ai.request.model", "gpt-4o-mini")
            span.set_attribute("session.id", "live")
            span.set_attribute("gen_ai.input.messages", json.dumps(asked))


def known(host: Deployment) -> list[Any]:
    """What is kept of two sessions; a projection moves on with the clock."""
    found = [get(host, f"/v1/sessions/{session}") for session in ("s", "spender")]
    for account in (account for session in found for account in session["budgets"]):
        del account["projected_ns"]
    return found


def test_kill_minus_nine_keeps_blocks_and_budgets_and_the_same_again_changes_nothing(tmp_path: Path) -> None:
    config = {**ENFORCE, "budgets": {"session": {"limit_usd": 0.0001}}}
    spends = [
        request(chat_span(n, [("user", f"question {'abcdef'[n]}")], session="spender", tokens=(100, 20)))
        for n in range(4)
    ]
    with embedded(tmp_path, config) as host:
        sender = Sender(host)
        assert [sender.send(r)[0] for r in (*repeater(3), *spends[:3])] == [200] * 6
        before = known(host)
        counted = counts(host)
        host.kill()
    with embedded(tmp_path, config) as host:
        sender = Sender(host)
        assert known(host) == before
        assert [d["key"] for d in get(host, "/v1/decisions")["decisions"]] == ["session:s"]
        assert [sender.send(r)[0] for r in (*repeater(3), *spends[:3])] == [200] * 6
        again = counts(host)
        assert known(host) == before
        same = ("calls", "cost_nano_usd", "decisions", "detections")
        assert {n: again[n] for n in same} == {n: counted[n] for n in same}
        assert again["duplicates"] == 6
        sender.send(spends[3])
        assert {d["rule"] for d in get(host, "/v1/decisions")["decisions"]} == {"repeat.prompt", "budget.session"}


def with_tokens(value: float) -> bytes:
    """A protobuf request of one span with this number of tokens."""
    made = ExportTraceServiceRequest()
    span = made.resource_spans.add().scope_spans.add().spans.add()
    span.trace_id, span.span_id = b"t" * 16, f"{abs(hash(value)) % 10**8:08d}".encode()
    span.start_time_unix_nano, span.end_time_unix_nano = 10**18, 10**18 + 1
    for key, text in (("gen_ai.operation.name", "chat"), ("gen_ai.request.model", "gpt-4o"), ("session.id", "odd")):
        attribute = span.attributes.add()
        attribute.key, attribute.value.string_value = key, text
    attribute = span.attributes.add()
    attribute.key, attribute.value.double_value = "gen_ai.usage.input_tokens", value
    return made.SerializeToString()


def without_ids() -> dict[str, Any]:
    span = chat_span(1, [("user", "hello")])
    del span["traceId"], span["spanId"]
    return request(span)


BAD: dict[str, tuple[dict[str, Any] | bytes, str, int]] = {
    "garbage": (b"\x00\xff garbage", PROTOBUF, 400),
    "garbage as JSON": (b"\x00\xff garbage", JSON, 400),
    "JSON as protobuf": (json.dumps(repeater(1)[0]).encode(), PROTOBUF, 400),
    "JSON of another shape": (b'[{"resourceSpans": 1}]', JSON, 400),
    "an empty message": (b"", PROTOBUF, 200),
    "an attribute of 5 MB": (request(chat_span(1, [("user", "x" * 5_000_000)], session="large")), JSON, 200),
    "a span without ids": (without_ids(), JSON, 200),
    "NaN tokens": (with_tokens(float("nan")), PROTOBUF, 200),
    "-1 tokens": (with_tokens(-1.0), PROTOBUF, 200),
    "1e300 tokens": (with_tokens(1e300), PROTOBUF, 200),
    "nesting without end": (b'{"resourceSpans":' + b"[" * 200_000, JSON, 400),
    "more than is allowed": (b"\n" * (21 * 1024 * 1024), PROTOBUF, 413),
}


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A host that all kinds of bad input are sent to."""
    with embedded(tmp_path_factory.mktemp("attacked"), ENFORCE) as host:
        yield host


@pytest.mark.parametrize("name", list(BAD))
def test_whatever_comes_the_next_good_request_is_handled_within_a_second(attacked: Deployment, name: str) -> None:
    body, content_type, wanted = BAD[name]
    before = counts(attacked)
    assert Sender(attacked).send(body, content_type)[0] == wanted
    started = time.monotonic()
    status, answer = Sender(attacked).send(
        request(chat_span(1, [("user", "Good day.")], session=f"{len(name):02d}{name}"))
    )
    assert (status, json.loads(answer), time.monotonic() - started < 1) == (200, {}, True)
    after = counts(attacked)
    assert after["dead_letters"] - before["dead_letters"] == (wanted == 400)
    assert 0 <= after["cost_nano_usd"] - before["cost_nano_usd"] < 10**11


def test_spans_without_ids_are_counted_and_told_to_their_sender(attacked: Deployment) -> None:
    before = counts(attacked)["rejected_spans"]
    _, answer = Sender(attacked).send(without_ids())
    assert json.loads(answer)["partialSuccess"]["rejectedSpans"] == "1"
    assert counts(attacked)["rejected_spans"] - before == 1


class Load:
    """Sends calls, one a request, on several connections, and remembers which were acknowledged."""

    def __init__(self, host: Deployment, senders: int = 3) -> None:
        self.sent: list[dict[str, Any]] = []
        self.acknowledged: Counter[str] = Counter()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(host, n), daemon=True) for n in range(senders)]

    def _run(self, host: Deployment, sender: int) -> None:
        try:
            connection = Sender(host)
            for number in range(100_000):
                session = f"{sender}{number % 10}"
                body = request(chat_span(number, [("user", f"{number} {number * 7919}")], session=session))
                if self._stop.is_set():
                    return
                self.sent.append(body)
                if connection.send(body)[0] == 200:
                    self.acknowledged[session] += 1
        except (OSError, http.client.HTTPException):
            return  # the host has gone

    @contextmanager
    def running(self, until_acknowledged: int) -> Iterator[None]:
        """While it runs, once some requests have been acknowledged."""
        for thread in self._threads:
            thread.start()
        deadline = time.monotonic() + 60
        while sum(self.acknowledged.values()) < until_acknowledged:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        try:
            yield
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join(30)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda n: n.name)
def test_the_end_of_the_host_under_load_loses_nothing_that_was_acknowledged(
    tmp_path: Path, number: signal.Signals
) -> None:
    with embedded(tmp_path, ENFORCE) as host:
        load = Load(host)
        with load.running(until_acknowledged=200):
            ended = time.monotonic()
            host.process.send_signal(number)
            assert host.process.wait(10) == (0 if number == signal.SIGTERM else -number)
            assert time.monotonic() - ended < 10
        assert not any("Traceback" in line for line in host.lines)
    with embedded(tmp_path, ENFORCE) as host:
        kept = {s: get(host, f"/v1/sessions/{s}")["calls"] for s in load.acknowledged}
        lost = {s: n for s, n in load.acknowledged.items() if kept[s] < n}
        assert lost == {}
        sender = Sender(host)
        assert all(sender.send(body)[0] == 200 for body in load.sent)
        assert counts(host)["calls"] == len(load.sent)


def start_in_vain(folder: Path, *, http: int = 0, grpc: int = 0, api: int = 0, storage: str = "own.db") -> str:
    """What a host says that cannot start."""
    otlp = {"http": {"endpoint": f"127.0.0.1:{http}"}, "grpc": {"endpoint": f"127.0.0.1:{grpc}"}}
    path = folder / "second.yaml"
    sections = {
        "receivers": {"otlp": {"protocols": otlp}},
        "extensions": {"api": {"endpoint": f"127.0.0.1:{api}"}, "storage": {"path": str(folder / storage)}},
    }
    path.write_text(json.dumps(sections))  # JSON is YAML
    command = [*SPANFUSE, "up", "--config", str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout, len(ran.stderr.splitlines())) == (1, "", 1)
    return ran.stderr


def test_a_port_or_file_that_is_taken_is_one_clear_line(tmp_path: Path) -> None:
    with embedded(tmp_path, ENFORCE) as host:
        ports = get(host, "/v1/status")["ports"]
        for name, protocol in (("http", "otlp_http"), ("grpc", "otlp_grpc"), ("api", "api")):
            said = start_in_vain(tmp_path, **{name: ports[protocol]})
            assert said.endswith(f"cannot listen on 127.0.0.1:{ports[protocol]}: Address already in use\n")
        assert "another process uses it" in start_in_vain(tmp_path, storage="spanfuse.db")
        assert host.process.poll() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
def test_clients_that_listen_do_not_keep_the_host_from_its_end(tmp_path: Path, number: signal.Signals) -> None:
    with embedded(tmp_path, ENFORCE) as host:
        sender = Sender(host)
        assert sender.send(repeater(1)[0])[0] == 200  # and the connection stays open
        started = time.monotonic()
        with pytest.raises(UnavailableError, match="ended the stream"):
            follow(host, lambda: host.process.send_signal(number), lambda name, data: False)
        assert host.process.wait(10) == 0
        assert time.monotonic() - started < 5
        assert [line for line in host.lines if "spanfuse is up" not in line] == []


def poll(number: int) -> dict[str, Any]:
    """A tool execution that always asks the same and is told something else each time, one a second until now."""
    span = chat_span(number, [], session="poller", at=time.time() - START_NS / 1e9 + number - 20)
    said = {
        "operation.name": "execute_tool",
        "tool.name": "poll",
        "tool.call.arguments": "{}",
        "tool.call.result": f"at {number}",
    }
    kept = [a for a in span["attributes"] if a["key"] == "session.id"]
    span["attributes"] = [*kept, *(attribute(f"gen_ai.{key}", value) for key, value in said.items())]
    return request(span)


def test_a_nudge_reaches_the_guard_while_the_breaker_is_closed(tmp_path: Path) -> None:
    with embedded(tmp_path, ENFORCE) as host, Guard(host.guard) as guard:
        assert guard.wait_ready(20)
        sender = Sender(host)
        assert [sender.send(poll(n))[0] for n in range(10)] == [200] * 10
        wait_until(lambda: bool(guard.check(session="poller").nudge))
        assert "poll" in guard.check(session="poller").nudge
        assert get(host, "/v1/status")["open_breakers"] == 0


def test_a_reset_reaches_every_stream_and_stays_after_a_restart(tmp_path: Path) -> None:
    with embedded(tmp_path, ENFORCE) as host:
        for body in repeater(3):
            Sender(host).send(body)
        resetting = functools.partial(host.spanfuse, "reset", "session:s")
        seen = follow(host, resetting, lambda name, data: name == "decision" and data["state"] == "closed")
        assert [name for name, _ in seen] == ["policy", "decision", "ready", "decision"]
        assert (seen[1][1]["epoch"], seen[3][1]["epoch"]) == (1, 2)
        host.kill()
    with embedded(tmp_path, ENFORCE) as host:
        assert get(host, "/v1/decisions") == {"decisions": []}
        assert get(host, "/v1/sessions/s")["calls"] == 0

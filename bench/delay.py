"""From the end of the span that completes a loop to the Guard's refusal, through real hosts.

Each sample is a session of its own that sends the same prompt three times; the clock starts when the third span ends and
stops when `Guard.check` first refuses. The baseline is a bare loopback HTTP round trip of the same bytes.
"""

from __future__ import annotations

import http.client
import http.server
import json
import statistics
import tempfile
import threading
import time
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanKind

from bench.report import Figure
from spanfuse import Blocked, Guard
from spanfuse.otel import SCHEDULE_DELAY_MS, ContextSpanProcessor, _batch, _exporter
from tests.services.choose import start_kafka
from tests.support.hosts import Deployment, embedded, stream

_SAMPLES = 100
_GIVE_UP_S = 5.0
_CONFIG = {"service": {"mode": "enforce"}}
_MESSAGES = [{"role": "user", "parts": [{"type": "text", "content": "What is the weather in Tokyo?"}]}]


def _tracer(endpoint: str) -> tuple[TracerProvider, trace.Tracer]:
    """What `spanfuse.instrument` sets up, but not as the global provider, so that two hosts can be measured in one process."""
    provider = TracerProvider()
    provider.add_span_processor(ContextSpanProcessor())
    provider.add_span_processor(_batch(_exporter(endpoint, "http/protobuf", None), SCHEDULE_DELAY_MS))
    return provider, provider.get_tracer("bench")


def _call(tracer: trace.Tracer) -> None:
    with tracer.start_as_current_span("chat", kind=SpanKind.CLIENT) as span:
        span.set_attribute("gen_ai.operation.name", "chat")
        span.set_attribute("gen_ai.provider.name", "openai")
        span.set_attribute("gen_ai.request.model", "gpt-4o-mini")
        span.set_attribute("gen_ai.input.messages", json.dumps(_MESSAGES))
        span.set_attribute("gen_ai.usage.input_tokens", 100)
        span.set_attribute("gen_ai.usage.output_tokens", 10)


def _sample(guard: Guard, tracer: trace.Tracer, session: str) -> float:
    with guard.session(session, agent="bench"):
        for _ in range(3):
            guard.check(messages=_MESSAGES)
            _call(tracer)
            ended = time.perf_counter()
            if _ < 2:
                time.sleep(0.02)
        while time.perf_counter() - ended < _GIVE_UP_S:
            try:
                guard.check(messages=_MESSAGES)
            except Blocked:
                return time.perf_counter() - ended
            time.sleep(0.0002)
    raise TimeoutError(f"{session} was not refused within {_GIVE_UP_S} s")


def _measure(host: Deployment) -> list[float]:
    provider, tracer = _tracer(host.otlp)
    try:
        with Guard(host.guard, mode="enforce") as guard:
            if not guard.wait_ready(30):
                raise TimeoutError("the Guard heard nothing")
            for i in range(10):
                _sample(guard, tracer, f"warm-{i}")
            return sorted(_sample(guard, tracer, f"s-{i}") for i in range(_SAMPLES))
    finally:
        provider.shutdown()


def _figures(name: str, delays: list[float], baseline: float) -> list[Figure]:
    p50, p99 = statistics.median(delays), delays[round(0.99 * (len(delays) - 1))]
    versus = "HTTP round trip"
    return [
        Figure(f"{name}: span end to refusal, p50", p50 * 1e3, "ms", baseline * 1e3, versus, "<= 15"),
        Figure(f"{name}: span end to refusal, p99", p99 * 1e3, "ms", baseline * 1e3, versus, "<= 100"),
    ]


class _Echo(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def _round_trip() -> float:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    client, times = http.client.HTTPConnection("127.0.0.1", server.server_port), []
    try:
        for _ in range(200):
            start = time.perf_counter()
            client.request("POST", "/", b"x" * 1000)
            client.getresponse().read()
            times.append(time.perf_counter() - start)
    finally:
        client.close()
        server.shutdown()
    return statistics.median(times)


def run() -> list[Figure]:
    """Both hosts; the stream host with a broker of its own."""
    baseline = _round_trip()
    with tempfile.TemporaryDirectory() as folder:
        with embedded(Path(folder), _CONFIG) as host:
            figures = _figures("embedded", _measure(host), baseline)
        kafka = start_kafka()
        try:
            with stream(Path(folder), _CONFIG, kafka.brokers) as host:
                figures += _figures("stream", _measure(host), baseline)
        finally:
            kafka.stop()
    return figures


if __name__ == "__main__":
    print(*run(), sep="\n")

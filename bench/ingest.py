"""OTLP bytes to calls on one core: spans a second and megabytes a second, beside parsing the same bytes alone."""

from __future__ import annotations

import gzip
import json
import os
import time
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bench.report import Figure
from spanfuse_processor.core.pricing import Prices
from spanfuse_processor.otlp.decode import decode
from spanfuse_processor.otlp.normalise import Normaliser
from tests.support.recorded import chat_span, request

_TRACES = Path(os.environ.get("SPANFUSE_TRACES", Path(__file__).parents[2] / "shared" / "traces"))
_RECEIVED_NS = 2 * 10**18


def _seconds(work: Callable[[bytes], object], requests: list[bytes], repeats: int = 3) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        for data in requests:
            work(data)
        times.append(time.perf_counter() - start)
    return min(times)


def _figures(
    name: str, requests: list[bytes], spans: int, encoding: str, parse: Callable[[bytes], object]
) -> list[Figure]:
    def ingest(data: bytes) -> object:
        return Normaliser(prices).batch(decode(data, encoding), _RECEIVED_NS)  # type: ignore[arg-type]

    prices = Prices()
    alone, whole = _seconds(parse, requests), _seconds(ingest, requests)
    megabytes = sum(map(len, requests)) / 1e6
    return [
        Figure(f"{name}: ingest", whole / spans * 1e6, "us/span", alone / spans * 1e6, "parse alone", "<= 3 x"),
        Figure(f"{name}: ingest", spans / whole, "spans/s"),
        Figure(f"{name}: ingest", megabytes / whole, "MB/s", megabytes / alone, "parse alone"),
    ]


def _small() -> list[bytes]:
    requests = []
    for batch in range(40):
        spans = [
            chat_span(n, [("user", f"Question {n} about item {n * 7}")], session=f"s{n % 20}")
            for n in range(batch * 50, batch * 50 + 50)
        ]
        requests.append(json.dumps(request(*spans)).encode())
    return requests


def _protobuf(requests: list[bytes]) -> list[bytes]:
    return [_as_message(json.loads(data)).SerializeToString() for data in requests]


def _as_message(found: dict[str, object]) -> ExportTraceServiceRequest:
    from google.protobuf.json_format import ParseDict

    for resource in found["resourceSpans"]:  # type: ignore[attr-defined]
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:  # JSON of protobuf writes bytes in base 64, OTLP in hex
                for key in ("traceId", "spanId"):
                    span[key] = b64encode(bytes.fromhex(span[key])).decode()
    return ParseDict(found, ExportTraceServiceRequest())


def run() -> list[Figure]:
    """Small spans of our own, and the recorded sessions where they are."""
    small = _small()
    figures = _figures("small spans, JSON", small, 2000, "json", json.loads)
    figures += _figures(
        "small spans, protobuf", _protobuf(small), 2000, "protobuf", ExportTraceServiceRequest.FromString
    )
    recorded = _TRACES / "labelled-dev.otlp.jsonl.gz"
    if recorded.exists():
        with gzip.open(recorded) as lines:
            requests = [line for line in lines if line.strip()]
        figures += _figures("recorded sessions, JSON", requests, len(requests), "json", json.loads)
    return figures


if __name__ == "__main__":
    print(*run(), sep="\n")

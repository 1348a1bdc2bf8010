"""OTLP bytes to calls on one core: spans and megabytes a second, beside parsing the same bytes alone.

Nothing is remembered from one round to the next, as texts do not come again in real traffic but from their own session. Time is
that of the processor, so that what else the machine does adds little.
"""

from __future__ import annotations

import gzip
import json
import logging
import os
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bench.report import Figure
from spanfuse.reading import drift, kept, texts
from spanfuse_processor.core.pricing import Prices
from spanfuse_processor.otlp.decode import Encoding, decode
from spanfuse_processor.otlp.normalise import Normaliser
from spanfuse_schemas import Tokens
from tests.support.recorded import chat_span, request

_TRACES: Final = Path(os.environ.get("SPANFUSE_TRACES", Path(__file__).parents[2] / "shared" / "traces"))
_RECEIVED_NS: Final = 2 * 10**18
_ROUNDS: Final = 4
_SMALL: Final = 2_000
"""Small spans: a question of five words and an answer, in requests of fifty."""

Parse = Callable[[bytes], Any]


def _seconds(work: Parse, requests: list[bytes], before: Callable[[], None] = lambda: None) -> float:
    """Processor time of one round, the best of some."""

    def once() -> float:
        before()
        began = time.process_time()
        for data in requests:
            work(data)
        return time.process_time() - began

    return min(once() for _ in range(_ROUNDS))


def _forget() -> None:
    """What was remembered of contents; not of words, which are those of a language."""
    for known in (texts._MEMO, kept._REMEMBERED, drift._FOUND):
        known.clear()


def _figures(name: str, requests: list[bytes], spans: int, encoding: Encoding, parse: Parse) -> Iterator[Figure]:
    prices = Prices()
    prices.cost("openai", "gpt-4o", Tokens(), 0)  # reads the table
    normaliser = Normaliser(prices, turns=False)

    def ingest(data: bytes) -> object:
        return normaliser.batch(decode(data, encoding), _RECEIVED_NS)

    def begin() -> None:
        nonlocal normaliser
        _forget()
        normaliser = Normaliser(prices, turns=False)

    alone = _seconds(parse, requests)
    decoded = _seconds(lambda data: decode(data, encoding), requests)
    whole = _seconds(ingest, requests, begin)
    megabytes = sum(map(len, requests)) / 1e6
    yield Figure(f"{name}: to spans", decoded / spans * 1e6, "us/span", alone / spans * 1e6, "parse alone")
    yield Figure(f"{name}: to calls", whole / spans * 1e6, "us/span", alone / spans * 1e6, "parse alone", "<= 3 x")
    yield Figure(f"{name}: to calls", spans / whole, "spans/s")
    yield Figure(f"{name}: to calls", megabytes / whole, "MB/s", megabytes / alone, "parse alone")


def _small() -> list[bytes]:
    def span(n: int) -> dict[str, Any]:
        return chat_span(n, [("user", f"Question {n} about item {n * 7}")], session=f"s{n % 20}")

    return [json.dumps(request(*map(span, range(n, n + 50)))).encode() for n in range(0, _SMALL, 50)]


def _protobuf(requests: list[bytes]) -> list[bytes]:
    return [_as_message(json.loads(data)).SerializeToString() for data in requests]


def _as_message(found: dict[str, Any]) -> ExportTraceServiceRequest:
    for resource in found["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:  # JSON of protobuf writes bytes in base 64, OTLP in hex
                for key in ("traceId", "spanId", "parentSpanId"):
                    if key in span:
                        span[key] = b64encode(bytes.fromhex(span[key])).decode()
    return ParseDict(found, ExportTraceServiceRequest())


def run() -> Iterator[Figure]:
    """Small spans of our own, and the recorded sessions where they are, in both encodings."""
    logging.getLogger("spanfuse_processor").setLevel(logging.ERROR)  # models without a price, once a round
    sets = {"small spans": (_small(), _SMALL)}
    recorded = _TRACES / "labelled-dev.otlp.jsonl.gz"
    if recorded.exists():
        with gzip.open(recorded) as lines:
            requests = [line for line in lines if line.strip()]
        sets["recorded sessions"] = requests, len(requests)
    for name, (requests, spans) in sets.items():
        yield from _figures(f"{name}, JSON", requests, spans, "json", json.loads)
        in_protobuf = _protobuf(requests)
        yield from _figures(f"{name}, protobuf", in_protobuf, spans, "protobuf", ExportTraceServiceRequest.FromString)


if __name__ == "__main__":
    print(*run(), sep="\n")

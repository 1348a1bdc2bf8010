"""A fleet behind Collectors: agent.yaml → gateway.yaml → Kafka → a worker; and what of it is on the topics."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spanfuse_processor.otlp.decode import decode, decode_logs, sniff
from spanfuse_schemas import Call, CallBatch
from spanfuse_schemas.topics import CALLS, OTLP_LOGS, OTLP_SPANS, TOPICS
from tests.services.otelcol import Collector
from tests.services.process import wait_until
from tests.support.stream import WorkerProcess, caught_up, fresh_topics, read_topic, until


@dataclass
class Behind:
    """What runs."""

    brokers: str
    agent: Collector
    gateway: Collector

    @property
    def otlp(self) -> str:
        """Where agents send to, OTLP/HTTP."""
        return f"http://127.0.0.1:{self.agent.http}"

    def post(self, path: str, body: bytes, collector: Collector | None = None) -> int:
        """Send a request as it is; the status."""
        url = f"http://127.0.0.1:{(collector or self.agent).http}{path}"
        request = urllib.request.Request(url, body, {"Content-Type": "application/x-protobuf"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)

    def run(self, plan: dict[str, Any]) -> dict[str, Any]:
        """An agent in a process of its own follows a plan; the outcome. See `tests.support.wire_agent`."""
        command = [sys.executable, "-m", "tests.support.wire_agent", "--otlp", self.otlp]
        done = subprocess.run(
            [*command, "--guard", f"kafka://{self.brokers}"],
            input=json.dumps(plan),
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def passed(self, spans: int, timeout_s: float = 60) -> None:
        """Wait until the gateway has sent so many spans since it started, and the worker has read them."""

        def sent() -> bool:
            return self.gateway.metric("otelcol_exporter_sent_spans", exporter="kafka") >= spans

        wait_until(sent, f"{spans} spans have left", timeout_s)

    def calls(self, session: str) -> list[Call]:
        """The calls of a session, once the worker has read all there is: the last telling of each."""
        return asyncio.run(self._calls(session))

    async def _calls(self, session: str) -> list[Call]:
        await until(lambda: caught_up(self.brokers, OTLP_SPANS, OTLP_LOGS), "ingest catches up", 90, 0.2)
        found: dict[str, Call] = {}
        for record in await read_topic(self.brokers, CALLS):
            for call in CallBatch.from_json(record.value).calls:
                if call.session == session:
                    found[call.span_id] = call
        return list(found.values())

    def partitions(self, topic: str, traces: Iterable[str]) -> set[tuple[str, int]]:
        """Of some traces, each with the partitions that it is on."""
        read = decode if topic == OTLP_SPANS else decode_logs
        wanted, records = frozenset(traces), asyncio.run(read_topic(self.brokers, topic))
        found = ((item.trace_id, r.partition) for r in records for item in read(r.value, sniff(r.value)))
        return {(trace, partition) for trace, partition in found if trace in wanted}

    def sizes(self, topic: str) -> list[int]:
        """Of the messages of a topic, bytes."""
        return [len(record.value) for record in asyncio.run(read_topic(self.brokers, topic))]

    def forms(self) -> set[int]:
        """What stands in the attribute `form` of the log records that came."""
        records = asyncio.run(read_topic(self.brokers, OTLP_LOGS))
        found = [record for r in records for record in decode_logs(r.value, sniff(r.value))]
        return {int(record.attributes["form"]) for record in found if "form" in record.attributes}

    def holding(self, texts: Iterable[str]) -> Counter[str]:
        """Topic → messages that have one of these texts in their bytes, wherever."""
        return asyncio.run(_holding(self.brokers, [text.encode() for text in texts]))


async def _holding(brokers: str, texts: Sequence[bytes]) -> Counter[str]:
    found: Counter[str] = Counter()
    for topic in TOPICS:
        for record in await read_topic(brokers, topic.name):
            whole = b"".join((record.key or b"", record.value or b"", *(value for _, value in record.headers)))
            found[topic.name] += any(text in whole for text in texts)
    return +found


@contextmanager
def behind(
    folder: Path,
    brokers: str,
    over_agent: Sequence[str] = (),
    over_gateway: Sequence[str] = (),
    **gateway_variables: str,
) -> Iterator[Behind]:
    """Two Collectors before a broker whose topics are there.

    Args:
        over_agent: files that are laid over agent.yaml.
        over_gateway: likewise over gateway.yaml.
        gateway_variables: of the gateway, beside those that are needed.
    """
    kafka = {"KAFKA_BROKERS": brokers, "OTELCOL_STORAGE": str(folder / "queue"), **gateway_variables}
    gateway = Collector(folder, ["gateway.yaml", *over_gateway], kafka)
    agent = Collector(folder, ["agent.yaml", *over_agent], {"GATEWAY_ENDPOINT": f"127.0.0.1:{gateway.grpc}"})
    try:
        yield Behind(brokers, agent.start(), gateway.start())
    finally:
        agent.process.stop()
        gateway.process.kill()  # with Kafka away it would wait


@contextmanager
def worker(folder: Path, brokers: str) -> Iterator[WorkerProcess]:
    """A worker that enforces, on fresh topics."""

    async def ready(process: WorkerProcess) -> None:
        await until(lambda: process.ready, "the worker is up", 60)

    asyncio.run(fresh_topics(brokers))
    process = WorkerProcess(folder, brokers, {"service": {"mode": "enforce"}})
    process.start()
    try:
        asyncio.run(ready(process))
        yield process
    finally:
        process.kill()

"""`examples/dead_letters.py` writes what could not be read to files that `spanfuse` reads, as the runbook says."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from tests.services.kafka_service import KafkaService
from tests.support.recorded import repeater
from tests.support.stream import DEAD_LETTER, fresh_topics

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]


async def bury(brokers: str, letters: dict[int, tuple[str, bytes]]) -> None:
    """By offset the topic that each came from, and its bytes; with the headers that workers write."""
    async with AIOKafkaProducer(bootstrap_servers=brokers) as producer:
        for offset, (topic, value) in letters.items():
            told = {"reason": "not an OTLP request", "topic": topic, "partition": "3", "offset": str(offset)}
            await producer.send_and_wait(DEAD_LETTER, value, headers=[(k, v.encode()) for k, v in told.items()])


def ran(*command: str) -> str:
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=60, check=True).stdout


def test_each_letter_is_a_file_and_those_that_are_spans_are_read(kafka: KafkaService, tmp_path: Path) -> None:
    asyncio.run(fresh_topics(kafka.brokers))
    good = json.dumps(repeater(1)[0]).encode()
    letters = {7: ("otlp_spans", good), 8: ("otlp_spans", b"\xff\x00"), 9: ("otlp_logs", b"[]")}
    asyncio.run(bury(kafka.brokers, letters))
    said = ran(str(ROOT / "examples" / "dead_letters.py"), kafka.brokers, str(tmp_path / "letters"))
    written = {file.name: file.read_bytes() for file in (tmp_path / "letters").iterdir()}
    assert written == {
        "otlp_spans-3-7.json": good, "otlp_spans-3-8.bin": b"\xff\x00", "otlp_logs-3-9.json": b"[]",
    }  # fmt: skip
    assert sorted(line.split("  ")[0] for line in said.splitlines()) == sorted(written)
    assert "otlp_spans-3-8.bin  2 bytes  not an OTLP request" in said
    assert "llm" in ran("-m", "spanfuse_processor", "inspect", str(tmp_path / "letters" / "otlp_spans-3-7.json"))

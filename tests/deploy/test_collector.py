"""Real Collectors with the files of deploy/collector carry spans and logs of real exporters through a real Kafka to a block."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.services import otelcol
from tests.services.kafka_jars import MissingTool
from tests.services.kafka_service import KafkaService
from tests.support.collected import Behind, behind, worker

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(300)]

COMBINATIONS = [
    ["agent.yaml"],
    ["agent.yaml", "without-content.yaml"],
    ["gateway.yaml"],
    ["gateway.yaml", "without-content.yaml"],
    ["gateway.yaml", "durable.yaml"],
    ["gateway.yaml", "kafka-sasl.yaml"],
    ["gateway.yaml", "without-content.yaml", "durable.yaml", "kafka-sasl.yaml"],
]
VARIABLES = {"KAFKA_BROKERS": "a:9092,b:9092", "KAFKA_USER": "spanfuse", "KAFKA_PASSWORD": "x", "SPANFUSE_TEAM": "shop"}


@pytest.fixture(scope="module", autouse=True)
def collector() -> Path:
    try:
        return otelcol.binary()
    except MissingTool as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def fleet(kafka: KafkaService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    folder = tmp_path_factory.mktemp("fleet")
    with worker(folder, kafka.brokers), behind(folder, kafka.brokers) as running:
        yield running


def test_the_version_is_the_pinned_one(collector: Path) -> None:
    told = subprocess.run([collector, "--version"], capture_output=True, text=True, timeout=20).stdout
    assert told.split()[-1] == otelcol.version()


@pytest.mark.parametrize("files", COMBINATIONS, ids="+".join)
def test_a_collector_accepts_each_file_and_what_is_laid_over_it(
    collector: Path, files: list[str], tmp_path: Path
) -> None:
    configs = [argument for name in files for argument in ("--config", str(otelcol.CONFIGS / name))]
    environment = {**VARIABLES, "OTELCOL_STORAGE": str(tmp_path)}
    told = subprocess.run(
        [collector, "validate", *configs], env=environment, capture_output=True, text=True, timeout=60
    )
    assert (told.returncode, told.stderr) == (0, "")


def reading(session: str, calls: int = 8) -> dict[str, Any]:
    """An agent that reads the same file for ever: the plan of `tests.support.wire_agent`."""
    messages: list[dict[str, Any]] = [{"role": "user", "parts": [{"type": "text", "content": "What is in a.txt?"}]}]
    asks = {"type": "tool_call", "id": "c", "name": "read", "arguments": {"path": "a.txt"}}
    output = {"role": "assistant", "parts": [asks]}
    result = {
        "role": "tool",
        "parts": [{"type": "tool_call_response", "id": "c", "response": "nothing of any use to anybody"}],
    }
    steps = [{"messages": messages + [output, result] * n, "output": output} for n in range(calls)]
    return {"session": session, "calls": steps, "pause_s": 1}


def test_a_loop_is_stopped_whose_spans_come_through_both_collectors(fleet: Behind) -> None:
    """At the call at which it would be stopped without them, and each call that was made is counted once."""
    outcome = fleet.run(reading("looping"))
    assert (outcome["allowed"], outcome["blocked_by"]) == (3, "repeat.no_progress")
    assert len(fleet.calls("looping")) == 3

"""The promised examples with real agent processes: spans out over OTLP, decisions back to the Guard, 100 ms between calls."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.services.kafka_service import KafkaService
from tests.support.hosts import Deployment, embedded, stream
from tests.support.plans import AGENT_RULES, Example, examples

pytestmark = [pytest.mark.integration, pytest.mark.paced, pytest.mark.timeout(300)]

CONFIG: dict[str, Any] = {"service": {"mode": "enforce"}, "policies": AGENT_RULES}


PAUSE_S = {"embedded": 0.1, "stream": 0.25}
"""Between two calls of an agent. On Kafka a decision takes 15 ms (see `python -m bench delay`), but here a dozen agents, the
broker, the worker and the tests share two cores, and what is tested is which call is stopped."""


def play(deployment: Deployment, plans: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Run plans in one agent process, at the same time; outcomes by session."""
    plans = [{"pause_s": PAUSE_S[deployment.name], **plan} for plan in plans]
    command = [sys.executable, "-m", "tests.support.wire_agent", "--otlp", deployment.otlp, "--guard", deployment.guard]
    text = "\n".join(json.dumps(p) for p in plans)
    ran = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return {o["session"]: o for o in map(json.loads, ran.stdout.splitlines())}


@pytest.fixture(scope="module", params=["embedded", "stream"])
def deployment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "embedded":
        with embedded(folder, CONFIG) as running:
            yield running
    else:
        kafka: KafkaService = request.getfixturevalue("kafka")
        with stream(folder, CONFIG, kafka.brokers) as running:
            yield running


@pytest.fixture(scope="module")
def outcomes(deployment: Deployment) -> dict[str, tuple[Example, dict[str, Any]]]:
    chosen = examples(deployment.name)
    found: dict[str, dict[str, Any]] = {}
    names = list(chosen)
    for part in (names[0::2], names[1::2]):  # two processes' worth at a time keeps two cores from queueing
        found |= play(deployment, [chosen[name].plan for name in part])
    return {name: (example, found[example.plan["session"]]) for name, example in chosen.items()}


@pytest.mark.parametrize("name", examples(""))
def test_an_example_is_stopped_at_the_promised_call_and_no_other_is(
    name: str, outcomes: dict[str, tuple[Example, dict[str, Any]]]
) -> None:
    example, outcome = outcomes[name]
    assert outcome["allowed"] == example.allowed, outcome
    assert (outcome["blocked_by"] in example.rules) if example.rules else (outcome["blocked_by"] is None), outcome


def test_after_the_cooldown_one_probe_passes_and_its_outcome_decides(deployment: Deployment) -> None:
    """Five failures, refused, wait, a failing probe, refused for longer, wait, a good probe, and all is well."""
    fail, wait = {"prompt": "down?", "error": "503"}, {"wait_s": 1.8}
    calls = [
        *[{"prompt": f"q{i} thing{i}", "error": "503"} for i in range(5)],
        *[fail] * 2, wait, *[fail] * 3, wait, fail, wait,
        *[{"prompt": f"and now {i} of thing{i}"} for i in range(4)],
    ]  # fmt: skip
    plan: dict[str, Any] = {"session": f"probe-{deployment.name}", "agent": "flaky", "calls": calls, "keep_on": True}
    told = play(deployment, [plan])[plan["session"]]["told"]
    assert told[:5] == [""] * 5
    assert told[5:7] == ["errors"] * 2
    assert told[7:10] == ["", "errors", "errors"], "one probe, and it failed"
    assert told[10] == "errors", "the cooldown is twice as long"
    assert told[11] == "", "the second probe"
    assert told[-1] == "", "the good probe closed the breaker"


def test_a_reset_clears_every_client_and_the_detectors(deployment: Deployment) -> None:
    session = f"reset-{deployment.name}"
    plan = {"session": session, "calls": [{"prompt": "again and again"}] * 5}
    first = play(deployment, [plan])[session]
    assert (first["allowed"], first["blocked_by"]) == (3, "repeat.prompt")
    assert play(deployment, [plan])[session]["allowed"] == 0, "a new process knows the block"
    deployment.spanfuse("reset", f"session:{session}")
    assert play(deployment, [plan])[session]["allowed"] == 3, "the detectors count from the start"


def test_an_unknown_model_costs_the_fallback_price(deployment: Deployment) -> None:
    calls = [
        {"prompt": f"q{i} thing{i}", "model": "nobody/knows-this-one", "input_tokens": 4000, "output_tokens": 1000}
        for i in range(4)
    ]
    plan: dict[str, Any] = {"session": f"fallback-{deployment.name}", "agent": "spender", "calls": calls}
    outcome = play(deployment, [plan])[plan["session"]]
    assert (outcome["allowed"], outcome["blocked_by"]) == (2, "budget.session"), "0.035 USD a call against 0.05"


def test_the_configuration_of_these_tests_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump(CONFIG))
    command = [sys.executable, "-m", "spanfuse_processor", "validate", "--config", str(path)]
    assert subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0

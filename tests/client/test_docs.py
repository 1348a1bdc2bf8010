"""The guide names what there is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import spanfuse
from spanfuse import Blocked, Guard, otel, testing
from spanfuse.decisions.probes import PROBE_LEASE_S
from spanfuse.decisions.table import MAX_DECISIONS
from spanfuse.emission import destination, span_queue
from spanfuse.guard import STALENESS_S
from spanfuse.subscribers.kafka import Connection

STUBS = """
from types import SimpleNamespace as Namespace
import pytest
message, usage = {"role": "assistant", "content": "Nothing."}, {"prompt_tokens": 1, "completion_tokens": 1}
answer = {"choices": [{"message": message}], "usage": usage}
client = Namespace(chat=Namespace(completions=Namespace(create=lambda **asked: answer)))
messages, model, instructions, secret = [{"role": "user", "content": "What is left?"}], "m", "Be brief.", "s" * 20
def my_agent(guard): guard.check()
"""
"""What the examples take for granted."""
GUIDE = (Path(__file__).parents[2] / "docs" / "client.md").read_text()


def test_the_numbers_of_the_guide_are_the_numbers_in_force() -> None:
    assert f"for {PROBE_LEASE_S:.0f} s (`probe_lease_s`)" in GUIDE
    assert f"{STALENESS_S:.0f} s without a sign of life (`staleness_s`)" in GUIDE
    assert f"{MAX_DECISIONS:,} open decisions" in GUIDE
    assert f"dropped once {span_queue.QUEUE_SPANS:,} wait" in GUIDE
    assert f"ends within {destination.EXIT_S:g} s" in GUIDE
    assert f"schedule_delay_ms={otel.SCHEDULE_DELAY_MS}" in GUIDE


def test_every_public_double_and_every_kafka_variable_is_documented() -> None:
    documented = set(re.findall(r"`?…?_?([A-Z_]+)`", GUIDE))
    assert {name.upper() for name in vars(Connection()) if name not in ("brokers", "client_id")} <= {
        name.removeprefix("SPANFUSE_KAFKA_") for name in documented
    }
    assert all(f"`{name}`" in GUIDE for name in testing.__all__)


def test_what_the_guide_calls_on_a_guard_and_a_refusal_exists() -> None:
    assert all(hasattr(Guard, name) for name in re.findall(r"guard\.([a-z_]+)", GUIDE) if name not in ("refused",))
    for field in ("code", "retryable", "status_code"):
        assert hasattr(Blocked, field)


def test_the_listeners_methods_are_those_that_are_told() -> None:
    """Which the guide names, whoever tells them."""
    named = set(re.findall(r"`([a-z_]+)\([a-z, ]*\)`", GUIDE.partition("## Listeners")[2].partition("\n\n```")[0]))
    sources = "".join(path.read_text() for path in Path(spanfuse.__file__).parent.rglob("*.py"))
    told = set(re.findall(r"\.tell\(\"([a-z_]+)\"|self\.tell, \"([a-z_]+)\"", sources))
    assert named == {one or other for one, other in told}


def test_the_examples_run() -> None:
    """One after the other, with a client that answers; no server is there, and in a process of its own, since they set its
    tracer provider."""
    examples = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    subprocess.run([sys.executable, "-c", "\n".join([STUBS, *examples])], check=True, capture_output=True, timeout=60)

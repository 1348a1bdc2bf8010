"""docs/telemetry.md and docs/metrics.md say what is so."""

from __future__ import annotations

import re
from pathlib import Path

from spanfuse_processor.config import load_config
from spanfuse_processor.config.telemetry import WORKER_ENDPOINT, Traces
from spanfuse_processor.hosts.stream.progress import STUCK_S
from spanfuse_processor.telemetry.catalogue import BY_NAME, MAX_SETS
from spanfuse_processor.telemetry.counters import SELF_SCOPE
from spanfuse_processor.telemetry.docs import markdown
from spanfuse_processor.telemetry.labels import MAX_CHARS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "telemetry.md").read_text(encoding="utf-8")


def test_the_reference_of_metrics_is_made_from_the_catalogue() -> None:
    """If this fails: python -m spanfuse_processor.telemetry.docs > docs/metrics.md"""
    assert (DOCS / "metrics.md").read_text(encoding="utf-8") == markdown() + "\n"


def test_every_metric_that_is_named_is_measured_with_the_attributes_that_are_named() -> None:
    known = {instrument.prometheus: instrument for instrument in BY_NAME.values()}
    named = re.findall(r"`(spanfuse_\w+)(?:\{(\w+)=)?", PAGE)
    assert len(named) > 15
    for name, attribute in named:
        assert name in known, name
        assert not attribute or attribute in known[name].attributes


def test_the_configuration_loads(tmp_path: Path) -> None:
    (block,) = re.findall(r"```yaml\n(service:.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "spanfuse.yaml"
    path.write_text(block)
    telemetry = load_config(path, {}).service.telemetry
    assert telemetry.metrics.endpoint == "0.0.0.0:9464"
    assert telemetry.metrics.otlp is not None
    assert telemetry.traces.otlp is not None
    assert telemetry.traces.sample_ratio == Traces().sample_ratio


def test_the_numbers_are_those_of_the_code() -> None:
    assert f"default: {WORKER_ENDPOINT}" in PAGE
    assert f"tells {MAX_SETS} sets of attributes" in PAGE
    assert f"cut after {MAX_CHARS}\ncharacters" in PAGE
    assert f"still for {STUCK_S:g} s" in PAGE
    assert f"`{SELF_SCOPE}`" in PAGE


def test_the_spans_that_are_named_are_those_that_are_made() -> None:
    hosts = Path(__file__).parents[2] / "processor" / "spanfuse_processor" / "hosts"
    code = "".join(path.read_text(encoding="utf-8") for path in hosts.rglob("*.py"))
    made = set(re.findall(r'work\(\s*"(spanfuse\.\w+)"', code))
    made |= {f"spanfuse.{name}" for name in re.findall(r'measured_as = "(\w+)"', code)}
    assert set(re.findall(r"`(spanfuse\.(?!processor)\w+)`", PAGE)) == made

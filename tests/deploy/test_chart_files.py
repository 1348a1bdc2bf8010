"""The chart's files, without Helm: its README tells of every value, and what it configures is what the code knows."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from spanfuse_processor.config import load_config
from spanfuse_processor.hosts.topics import APP_ID
from spanfuse_schemas.topics import CALLS, CHARGES, OTLP_SPANS
from tests.deploy.charts import CHART, ROOT, values_files

VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
WHOLE = ("config", "podSecurityContext", "securityContext", "resources", "strategy", "podDisruptionBudget")
"""Values that the README tells of as a whole."""


def leaves(values: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Each value by its path."""
    for name, value in values.items():
        path = f"{above}.{name}".lstrip(".")
        if isinstance(value, dict) and value and name not in WHOLE:
            yield from leaves(value, path)
        else:
            yield path, value


def told() -> dict[str, str]:
    """Path → the default that the README tells, of each row of its table."""
    rows = re.findall(r"^\| (`[^|]+) \| ([^|]*) \|", (CHART / "README.md").read_text(), re.MULTILINE)
    found = {}
    for names, default in rows:
        paths = re.findall(r"`([^`]+)`", names)
        defaults = default.split(", ") if default.count(", ") == len(paths) - 1 else [default] * len(paths)
        for path, value in zip(paths, defaults, strict=True):
            whole = paths[0].rpartition(".")[0] + path if path.startswith(".") else path
            found[whole] = value.strip("`")
    return found


def test_the_readme_tells_of_every_value() -> None:
    found = told()
    for path, _ in leaves(VALUES):
        component, _, name = path.partition(".")
        assert path in found or (component == "api" and f"worker.{name}" in found), path


def test_the_readme_tells_of_no_value_that_there_is_not() -> None:
    assert told().keys() <= dict(leaves(VALUES)).keys()


def test_defaults_that_the_readme_tells_are_those_of_the_values() -> None:
    known = dict(leaves(VALUES))
    for path, default in told().items():
        if default.startswith(("{", "[", '"')) or default in ("true", "false", "null") or default.isdecimal():
            assert json.loads(default) == known[path], path


def test_its_version_of_spanfuse_is_that_of_the_project() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


@pytest.mark.parametrize("file", [CHART / "values.yaml", *values_files()], ids=lambda file: file.stem)
def test_values_pass_their_schema(file: Path) -> None:
    given = yaml.safe_load(file.read_text())
    jsonschema.validate(_merged(VALUES, given), SCHEMA)


@pytest.mark.parametrize("file", [CHART / "values.yaml", *values_files()], ids=lambda file: file.stem)
def test_their_configuration_is_one(file: Path, tmp_path: Path) -> None:
    config = _merged(VALUES, yaml.safe_load(file.read_text()))["config"]
    written = tmp_path / "spanfuse.yaml"
    written.write_text(yaml.safe_dump(config))
    asked = re.findall(r"\$\{env:(\w+)", written.read_text())
    env = {name: f"{name.lower()}-of-enough-characters" for name in asked} | {"KAFKA_BROKERS": "kafka:9092"}
    assert load_config(written, env).receivers.kafka is not None


def test_unknown_values_are_refused() -> None:
    with pytest.raises(jsonschema.ValidationError, match="repicas"):
        jsonschema.validate(_merged(VALUES, {"worker": {"repicas": 3}}), SCHEMA)


def test_keda_asks_for_the_lag_of_the_topics_and_the_group_of_workers() -> None:
    text = (CHART / "templates/autoscaling.yaml").read_text()
    assert f'list "{OTLP_SPANS}" "{CALLS}" "{CHARGES}"' in text
    assert f"consumerGroup: {APP_ID}\n" in text


def _merged(base: Any, over: Any) -> Any:
    """As Helm merges values: sections are merged, null removes a key."""
    if not (isinstance(base, dict) and isinstance(over, dict)):
        return over
    names = {**base, **over}
    merged = {name: _merged(base[name], over[name]) if name in base and name in over else names[name] for name in names}
    return {
        name: value for name, value in merged.items() if value is not None or name not in over or name == "maxReplicas"
    }

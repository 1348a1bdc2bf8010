"""Rules and configuration of Prometheus: metrics of ours; for each alert a severity, what to do, a section of the runbook."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from spanfuse_processor.telemetry.catalogue import FORBIDDEN
from tests.services.prometheus import promtool, write_yaml
from tests.support.promql import (
    PLACE,
    ROOT,
    RULES,
    grouping,
    groups,
    known,
    of_rules,
    recorded,
    selectors,
)

DEPLOY = ROOT / "deploy"
FOLDER = DEPLOY / "prometheus"
RUNBOOK = ROOT / "docs" / "runbook.md"
CASES = sorted((FOLDER / "tests").glob("*.yaml"))
ALERTS: list[dict[str, Any]] = [r for path in RULES for group in groups(path) for r in group["rules"] if "alert" in r]
NAMES = [alert["alert"] for alert in ALERTS]


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_what_rules_name_is_a_metric_of_ours_or_what_they_record() -> None:
    """And every label that is matched, grouped or joined by is one of these."""
    metrics, ours = known(), recorded()
    for where, expr, _ in of_rules():
        named = list(selectors(expr))
        assert named, where
        assert {name for name, _ in named} <= set(metrics) | ours, where
        assert all(labels <= metrics[name] for name, labels in named if name in metrics), where
        given = PLACE | set().union(*(metrics.get(name, set()) for name, _ in named))
        if not {name for name, _ in named} & ours:
            assert grouping(expr) <= given, where
        assert not grouping(expr) & FORBIDDEN, where


def test_all_that_is_recorded_is_looked_at() -> None:
    """By an alert, or by another rule."""
    used = {name for _, expr, _ in of_rules() for name, _ in selectors(expr)}
    assert recorded() <= used


@pytest.mark.parametrize("alert", ALERTS, ids=NAMES)
def test_each_alert_says_how_bad_it_is_and_what_to_do(alert: dict[str, Any]) -> None:
    """A severity, a summary, a description, and its own section of the runbook."""
    name, notes = alert["alert"], alert["annotations"]
    assert alert["labels"]["severity"] in {"critical", "warning"}
    assert set(notes) == {"summary", "description", "runbook_url"}
    assert "{{" in notes["summary"]
    assert notes["description"].endswith(".")
    assert notes["runbook_url"].partition("#")[2] == name.lower()
    assert re.search(rf"^### {name}$", RUNBOOK.read_text(encoding="utf-8"), re.MULTILINE)


def test_names_of_alerts_are_their_own() -> None:
    """Alertmanager groups by them."""
    assert len(set(NAMES)) == len(NAMES)


def test_each_alert_is_seen_to_fire_in_a_test_of_promtool() -> None:
    """In one of deploy/prometheus/tests."""
    cases = "".join(path.read_text(encoding="utf-8") for path in CASES)
    assert set(re.findall(r'alertname="(\w+)", alertstate="firing"', cases)) == set(NAMES)


def test_grafana_is_given_the_dashboards_and_the_data_source_they_begin_with() -> None:
    """As docker-compose.yml mounts them."""
    (source,) = read(DEPLOY / "grafana/provisioning/datasources/prometheus.yaml")["datasources"]
    assert (source["type"], source["isDefault"]) == ("prometheus", True)
    (provider,) = read(DEPLOY / "grafana/provisioning/dashboards/spanfuse.yaml")["providers"]
    assert (provider["type"], provider["options"]["path"]) == ("file", "/var/lib/grafana/dashboards")


@pytest.mark.integration
@pytest.mark.usefixtures("tools")
def test_promtool_accepts_the_rules() -> None:
    """Syntax, templates, duplicates."""
    promtool("check", "rules", *map(str, RULES))


@pytest.mark.integration
@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_alerts_fire_when_they_should_and_not_before(case: Path) -> None:
    """Series that are made up, and what fires on them."""
    promtool("test", "rules", str(case))


@pytest.mark.integration
@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("name", ["prometheus.yml", "kubernetes.yml"])
def test_promtool_accepts_the_configuration(name: str, tmp_path: Path) -> None:
    """The token is a file that comes with the deployment. Debian's promtool knows no Kubernetes: that part is replaced."""
    token = tmp_path / "token"
    token.write_text("secret")
    config = read(FOLDER / name)
    assert config["rule_files"] == ["rules/*.yaml"]
    config["rule_files"] = [str(FOLDER / "rules/*.yaml")]
    for job in config["scrape_configs"]:
        if "authorization" in job:
            job["authorization"]["credentials_file"] = str(token)
        for files in job.get("file_sd_configs", ()):
            files["files"] = [str(FOLDER / file) for file in files["files"]]
        if job.pop("kubernetes_sd_configs", None):
            job["static_configs"] = [{"targets": ["127.0.0.1:9464"]}]
    said = promtool("check", "config", str(write_yaml(tmp_path / name, config)))
    assert f"{len(ALERTS)} rules found" in said


def test_the_page_lists_each_alert_with_its_severity() -> None:
    """docs/dashboards.md, in the order of the rules."""
    page = (ROOT / "docs" / "dashboards.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (Spanfuse\w+) \| (\w+) \|", page, re.MULTILINE)
    assert rows == [(alert["alert"], alert["labels"]["severity"]) for alert in ALERTS]


def test_the_rules_are_also_those_of_the_operator() -> None:
    """The commands on the page, with a kubectl that prints what it is given."""
    page = (ROOT / "docs" / "dashboards.md").read_text(encoding="utf-8")
    (commands,) = re.findall(r"```sh\n(for rules in .*?)```", page, re.DOTALL)
    script = f"kubectl() {{ cat; echo ---; }}\n{commands}"
    run = subprocess.run(["bash", "-ec", script], cwd=ROOT, capture_output=True, text=True, timeout=20, check=True)
    made = [one for one in yaml.safe_load_all(run.stdout) if one]
    assert [one["metadata"]["name"] for one in made] == ["spanfuse-recording", "spanfuse-alerts"]
    assert [one["spec"]["groups"] for one in made] == [
        groups(FOLDER / f"rules/{name}.yaml") for name in ("recording", "alerts")
    ]

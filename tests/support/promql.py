"""The PromQL of dashboards and rules: all of it, what it names, and as it is asked without Grafana."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from spanfuse_processor.telemetry.catalogue import CATALOGUE

ROOT: Final = Path(__file__).parents[2]
DASHBOARDS: Final = sorted((ROOT / "dashboards").glob("*.json"))
RULES: Final = sorted((ROOT / "deploy" / "prometheus" / "rules").glob("*.yaml"))

PLACE: Final = frozenset({"job", "instance"})
"""Labels that Prometheus gives to what it scrapes."""
PROCESS: Final = frozenset({"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"})
"""What Prometheus' client library tells of a process, as far as it is shown."""


def known() -> dict[str, frozenset[str]]:
    """Every metric of ours, by the names that Prometheus has for it → its labels."""
    found: dict[str, frozenset[str]] = {"up": PLACE} | dict.fromkeys((*PROCESS, "process_start_time_seconds"), PLACE)
    for one in CATALOGUE:
        labels = PLACE | set(one.attributes)
        if one.kind == "histogram":
            found |= {f"{one.prometheus}_{part}": labels for part in ("sum", "count")}
            found[f"{one.prometheus}_bucket"] = labels | {"le"}
        else:
            found[one.prometheus] = labels
    return found


class Asked(NamedTuple):
    """One expression, and where it stands."""

    where: str
    expr: str
    over_time: bool = False
    """Whether it is asked for each point of a time axis, not for now."""


def board(path: Path) -> dict[str, Any]:
    """A dashboard."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def panels(of: dict[str, Any]) -> list[dict[str, Any]]:
    """Its panels, rows left out."""
    return [panel for panel in of["panels"] if panel["type"] != "row"]


def of_dashboards() -> Iterator[Asked]:
    """Every expression of every panel, annotation and variable."""
    for path in DASHBOARDS:
        found = board(path)
        for panel in panels(found):
            for target in panel.get("targets", ()):
                yield Asked(f"{path.stem} / {panel['title']} / {target['refId']}", target["expr"], target["range"])
        for mark in found["annotations"]["list"]:
            yield Asked(f"{path.stem} / annotation {mark['name']}", mark["target"]["expr"], True)
        for variable in found["templating"]["list"]:
            if variable["type"] == "query":
                metric, label = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"]).groups()  # type: ignore[union-attr]
                yield Asked(f"{path.stem} / variable {variable['name']}", f"count by ({label}) ({metric})")


def groups(path: Path) -> list[dict[str, Any]]:
    """The groups of a file of rules."""
    found: list[dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
    return found


def of_rules() -> Iterator[Asked]:
    """Every expression of every rule."""
    for path in RULES:
        for rule in (rule for group in groups(path) for rule in group["rules"]):
            yield Asked(f"{path.stem} / {rule.get('alert') or rule['record']}", rule["expr"])


def recorded() -> set[str]:
    """Names that rules give to what they record."""
    return {rule["record"] for path in RULES for g in groups(path) for rule in g["rules"] if "record" in rule}


_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_NAME = re.compile(r"(?<![\w:$.])[a-zA-Z_:][\w:]*(?![\w:]*\s*\()(?![\w:])")
_WORDS = {"by", "on", "ignoring", "without", "and", "or", "unless", "bool", "group_left", "group_right"}
_GROUPING = re.compile(r"\b(?:by|on|ignoring|without|group_left|group_right)\s*\(([^)]*)\)")
_SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}")
_MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")


def selectors(expr: str) -> Iterator[tuple[str, set[str]]]:
    """Metrics that an expression names, and the labels each is matched by."""
    bare = _STRING.sub('""', expr)
    for name, matchers in _SELECTOR.findall(bare):
        yield name, set(_MATCHER.findall(matchers))
    rest = re.sub(r"\[[^]]*\]", "", _GROUPING.sub("", re.sub(r"\{[^}]*\}", "", bare)))
    rest = re.sub(r"\boffset\s+\S+", "", rest)
    for name in _NAME.findall(rest):
        if name.lower() not in _WORDS:
            yield name, set()


def grouping(expr: str) -> set[str]:
    """Labels that an expression groups or joins by."""
    found = (label.strip() for labels in _GROUPING.findall(expr) for label in labels.split(","))
    return {label for label in found if label}


def substituted(expr: str, window: str, step: str) -> str:
    """As Grafana asks it with everything chosen.

    Args:
        window: a duration, for the time shown and for rates.
        step: another, for the time from point to point.
    """
    found = re.sub(r"\$__(?:range|rate_interval)\b", window, expr).replace("$__interval", step)
    return re.sub(r'=~"\$\w+"', '=~".*"', found)

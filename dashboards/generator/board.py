"""What all dashboards have in common: what is chosen above the panels, marks in time, links, the grid."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from grafana_foundation_sdk.builders.dashboard import (
    Dashboard,
    DashboardLink,
    DatasourceVariable,
    QueryVariable,
    Row,
    TextBoxVariable,
)
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from dashboards.generator.panels import SOURCE, Built, Link
from dashboards.generator.queries import each, series
from spanfuse_processor.telemetry.catalogue import CALLS, DECISIONS, DETECTIONS, INFO, POLICY_EPOCH, Instrument

TAG: Final = "spanfuse"
API: Final = "${api_url}"
"""Address of the API and of its live page, as the reader's browser reaches it: a variable of each dashboard."""

_CHOICES: Final[dict[str, tuple[str, Instrument]]] = {
    "agent": ("Agent", CALLS),
    "team": ("Team", CALLS),
    "model": ("Model", CALLS),
    "rule": ("Rule", DETECTIONS),
}
"""Label that can be chosen → what it is called, and the metric whose values are offered."""

SESSIONS_OF_AGENT: Final = Link(
    "Sessions of ${__field.labels.agent}", f"{API}/ui/sessions?agent=${{__field.labels.agent:percentencode}}"
)
DETECTIONS_OF_RULE: Final = Link(
    "What ${__field.labels.rule} found", f"{API}/ui/detections?rule=${{__field.labels.rule:percentencode}}"
)
SESSIONS_IN_ROW: Final = Link("Its sessions", f"{API}/ui/sessions?agent=${{__value.raw:percentencode}}")
DETECTIONS_IN_ROW: Final = Link("What it found", f"{API}/ui/detections?rule=${{__value.raw:percentencode}}")
BREAKERS: Final = Link("What stands", f"{API}/ui/breakers")
BUDGETS: Final = Link("Budgets", f"{API}/ui/budgets")

Section = tuple[str, Sequence[Built]]
"""Heading of a row, and its panels."""


def board(
    uid: str, title: str, about: str, choices: Iterable[str], sections: Iterable[Section], *, extra: Iterable[Any] = ()
) -> Dashboard:
    """A dashboard.

    Args:
        uid: by which it is linked to; it stays when the title changes.
        choices: labels that can be chosen above the panels, from `_CHOICES`.
        extra: variables of this dashboard alone.
    """
    found = Dashboard(title).uid(uid).description(about).tags([TAG]).tooltip(DashboardCursorSync.CROSSHAIR)
    found.refresh("30s").time("now-3h", "now").editable()
    for variable in (*_places(), *(_choice(label) for label in choices), *extra, _api()):
        found.with_variable(variable)
    found.annotation(_blocks()).annotation(_policy()).link(_others()).link(_live_page())
    for heading, panels in sections:
        found.with_row(Row(heading))
        for panel in panels:
            found.with_panel(panel)
    return found


def as_json(found: Dashboard) -> str:
    """The file's content: panels numbered in order, keys sorted."""
    built = found.build()
    for number, panel in enumerate(built.panels or (), start=1):
        panel.id_val = number
    content = json.loads(JSONEncoder().encode(built))
    for variable in content["templating"]["list"]:
        for name in ("auto", "auto_count", "auto_min"):  # of variables of another kind
            del variable[name]
    return json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _places() -> list[Any]:
    source = DatasourceVariable("datasource").label("Data source").type("prometheus")
    return [source, _values("job", "Job", INFO), _values("instance", "Instance", INFO, 'job=~"$job"')]


def _choice(label: str) -> QueryVariable:
    name, metric = _CHOICES[label]
    return _values(label, name, metric, 'job=~"$job"')


def _values(label: str, name: str, metric: Instrument, *matchers: str) -> QueryVariable:
    of = f"{metric.prometheus}{{{', '.join(matchers)}}}" if matchers else metric.prometheus
    variable = QueryVariable(label).label(name).datasource(SOURCE).multi(True).include_all(True).all_value(".*")
    variable.query({"query": f"label_values({of}, {label})", "refId": label})
    variable.current(VariableOption(selected=True, text=["All"], value=["$__all"]))
    return variable.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(VariableSort.ALPHABETICAL_ASC)


def _api() -> TextBoxVariable:
    about = "Address of the API and its live page, as your browser reaches it"
    return TextBoxVariable("api_url").label("API").description(about).default_value("http://127.0.0.1:8787")


class _Marked(models.AnnotationQuery):
    """Marks in time out of Prometheus: the SDK's own have no query and no text."""

    more: dict[str, object]

    def to_json(self) -> dict[str, object]:
        return super().to_json() | self.more


class _Marks(Builder[models.AnnotationQuery]):
    """Those of a query, looked for every minute."""

    def __init__(self, name: str, color: str, expr: str, *, title: str, tags: str) -> None:
        self._built = _Marked(name=name, datasource=SOURCE, icon_color=color)
        target = {"expr": expr, "interval": "1m", "refId": "Anno"}
        self._built.more = {"target": target, "titleFormat": title, "tagKeys": tags}

    def build(self) -> models.AnnotationQuery:
        return self._built


def _blocks() -> _Marks:
    opened = each(DECISIONS, 'action="block"', 'state="open"', by=("rule", "scope"), step="1m")
    return _Marks("Blocks", "red", f"{opened} > 0", title="{{scope}} stopped by {{rule}}", tags="rule,scope")


def _policy() -> _Marks:
    changed = f"max by (job) (changes({series(POLICY_EPOCH)}[1m])) > 0"
    return _Marks("Policy", "blue", changed, title="The policy changed", tags="job")


def _others() -> DashboardLink:
    found = DashboardLink("spanfuse").type(DashboardLinkType.DASHBOARDS).tags([TAG])
    return found.as_dropdown(True).include_vars(True).keep_time(True)


def _live_page() -> DashboardLink:
    found = DashboardLink("Live page").type(DashboardLinkType.LINK).url(f"{API}/").icon("external link")
    return found.tooltip("Sessions, breakers and budgets, each by its name").target_blank(True)

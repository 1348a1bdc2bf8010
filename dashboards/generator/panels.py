"""The kinds of panels: each with a title, a unit, a description, and queries to the chosen data source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from grafana_foundation_sdk.builders import bargauge, common, dashboard, prometheus, stat, table, text, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.common import (
    BarGaugeDisplayMode,
    BigValueGraphMode,
    GraphDrawStyle,
    GraphThresholdsStyleMode,
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
    VizOrientation,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardLinkType,
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    Panel,
    Threshold,
    ThresholdsMode,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat
from grafana_foundation_sdk.models.text import TextMode

SOURCE: Final = DataSourceRef(type_val="prometheus", uid="${datasource}")
"""The data source that is chosen above the panels."""

Steps = Sequence[tuple[float | None, str]]
"""Colours: from which value on; the first has none."""

GOOD: Final[Steps] = ((None, "green"),)
NONE_WANTED: Final[Steps] = ((None, "green"), (1, "red"))
"""Anything but 0 is wrong."""
NOTED: Final[Steps] = ((None, "text"), (1, "orange"))
"""Anything but 0 is worth a look."""


class Query(NamedTuple):
    """A query of a panel."""

    expr: str
    """PromQL."""
    legend: str = ""
    """What a series is called: `{{agent}}`; in a table, the heading of its column."""


class Link(NamedTuple):
    """Where a value leads to."""

    title: str
    url: str


Built = Builder[Panel]


def number(
    title: str,
    about: str,
    unit: str,
    expr: str,
    *,
    steps: Steps = GOOD,
    decimals: int | None = None,
    empty: str = "0",
    link: Link | None = None,
) -> Built:
    """One number, of now.

    Args:
        steps: colours.
        empty: what is shown where there is no series yet.
    """
    panel = stat.Panel().graph_mode(BigValueGraphMode.NONE).no_value(empty).span(4).height(4)
    panel.thresholds(_thresholds(steps)).with_target(_target(Query(expr), "A").instant())
    if decimals is not None:
        panel.decimals(decimals)
    if link:
        panel.data_links([_link(link)])
    return panel.title(title).description(about).unit(unit).datasource(SOURCE)


def lines(
    title: str,
    about: str,
    unit: str,
    *queries: Query,
    stacked: bool = False,
    bars: bool = False,
    most: float | None = None,
    steps: Steps = (),
    link: Link | None = None,
    width: int = 12,
) -> Built:
    """Values over time.

    Args:
        most: end of the axis.
        steps: limits, drawn as dashed lines.
    """
    panel = timeseries.Panel().span(width).height(8).fill_opacity(60 if bars else 10).min(0).no_value("0")
    panel.draw_style(GraphDrawStyle.BARS if bars else GraphDrawStyle.LINE)
    if bars:
        panel.interval("1m")
    if stacked or bars:
        panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    if most is not None:
        panel.max(most)
    if steps:
        panel.thresholds(_thresholds(steps))
        panel.thresholds_style(common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED))
    if link:
        panel.data_links([_link(link)])
    panel.legend(_legend()).tooltip(
        common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING)
    )
    for letter, query in zip("ABCDEFGH", queries, strict=False):
        panel.with_target(_target(query, letter).range())
    return panel.title(title).description(about).unit(unit).datasource(SOURCE)


def gauges(title: str, about: str, unit: str, query: Query, *, steps: Steps, most: float, link: Link) -> Built:
    """A bar for each series, of now."""
    panel = bargauge.Panel().span(12).height(9).min(0).max(most).no_value("0")
    panel.orientation(VizOrientation.HORIZONTAL).display_mode(BarGaugeDisplayMode.BASIC)
    panel.thresholds(_thresholds(steps)).data_links([_link(link)]).with_target(_target(query, "A").instant())
    return panel.title(title).description(about).unit(unit).datasource(SOURCE)


def rows(
    title: str,
    about: str,
    *queries: Query,
    units: Mapping[str, str],
    labels: Sequence[str],
    links: Mapping[str, Link] | None = None,
    width: int = 24,
    height: int = 9,
) -> Built:
    """A table, of now: a row for each set of `labels`, a column for each query.

    Args:
        units: heading of a column → its unit.
        labels: those of the queries, in the order of the columns.
        links: label → where its values lead to.
    """
    panel = table.Panel().span(width).height(height).no_value("0").unit("short").decimals(0).filterable(True)
    for letter, query in zip("ABCDEFGH", queries, strict=False):
        panel.with_target(_target(query, letter).instant().format(PromQueryFormat.TABLE))
    panel.with_transformation(DataTransformerConfig(id_val="merge", options={}))
    panel.with_transformation(DataTransformerConfig(id_val="organize", options=_columns(queries, labels)))
    for heading, unit in units.items():
        decimals = 2 if unit.startswith(("currency", "percent")) else 0
        panel.override_by_name(heading, [DynamicConfigValue("unit", unit), DynamicConfigValue("decimals", decimals)])
    for label, link in (links or {}).items():
        panel.override_by_name(label, [DynamicConfigValue("links", [_link(link).build()])])
    return panel.title(title).description(about).datasource(SOURCE)


def prose(title: str, markdown: str, *, width: int = 24, height: int = 6) -> Built:
    """A text."""
    panel = text.Panel().title(title).description("What this dashboard is for.").span(width).height(height)
    return panel.mode(TextMode.MARKDOWN).content(markdown)


def _columns(queries: Sequence[Query], labels: Sequence[str]) -> dict[str, Any]:
    one = len(queries) == 1
    values = {"Value" if one else f"Value #{letter}": q.legend for letter, q in zip("ABCDEFGH", queries, strict=False)}
    order = {name: place for place, name in enumerate((*labels, *values))}
    return {"excludeByName": {"Time": True}, "indexByName": order, "renameByName": values}


def _target(query: Query, letter: str) -> prometheus.Dataquery:
    target = prometheus.Dataquery().expr(query.expr).ref_id(letter).datasource(SOURCE)
    return target.legend_format(query.legend) if query.legend else target


def _thresholds(steps: Steps) -> dashboard.ThresholdsConfig:
    found = [Threshold(value=value, color=color) for value, color in steps]
    return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(found)


def _legend() -> common.VizLegendOptions:
    legend = common.VizLegendOptions().display_mode(LegendDisplayMode.TABLE).placement(LegendPlacement.RIGHT)
    return legend.show_legend(True).calcs(["lastNotNull", "max"])


def _link(link: Link) -> dashboard.DashboardLink:
    found = dashboard.DashboardLink(link.title).type(DashboardLinkType.LINK).url(link.url)
    return found.target_blank(True)

"""The dashboards: written by code, with units and descriptions, of metrics and labels that exist, never of sessions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from dashboards.generator.__main__ import BOARDS, main
from spanfuse_processor.page.routes import PAGE
from spanfuse_processor.telemetry.catalogue import FORBIDDEN
from tests.support.promql import DASHBOARDS, PLACE, PROCESS, board, grouping, known, of_dashboards, panels, selectors

NAMES = ("detections", "fleet", "operations", "session", "spend", "tuning")
BUILT_IN = {"__all", "__range", "__rate_interval", "__field", "__value", "__interval"}
"""Variables that Grafana has by itself."""

every = pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)


def texts(of: Any) -> Iterator[str]:
    """All strings within."""
    if isinstance(of, str):
        yield of
    elif isinstance(of, dict):
        yield from (text for value in of.values() for text in texts(value))
    elif isinstance(of, list):
        yield from (text for value in of for text in texts(value))


def boxes(of: dict[str, Any]) -> list[set[tuple[int, int]]]:
    """Cells of the grid that each panel and row takes."""
    found = []
    for place in (panel["gridPos"] for panel in of["panels"]):
        across, down = range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        found.append({(x, y) for x in across for y in down})
    return found


def test_the_six_are_there_and_what_the_code_writes(tmp_path: Path) -> None:
    """`make dashboards` writes them anew."""
    main(tmp_path)
    assert tuple(path.stem for path in DASHBOARDS) == NAMES == tuple(sorted(BOARDS))
    for path in DASHBOARDS:
        assert (tmp_path / path.name).read_text() == path.read_text(), (
            f"{path.name} is not what the code writes: make dashboards"
        )


def test_each_has_an_address_of_its_own_that_does_not_change() -> None:
    """Links elsewhere go by it."""
    assert {board(path)["uid"] for path in DASHBOARDS} == {f"spanfuse-{name}" for name in NAMES}


@every
def test_everything_asks_the_data_source_that_is_chosen(path: Path) -> None:
    """Panels, queries, annotations and variables; the texts ask nothing."""
    found, chosen = board(path), {"type": "prometheus", "uid": "${datasource}"}
    asking = [panel for panel in panels(found) if panel["type"] != "text"]
    asking += [target for panel in panels(found) for target in panel.get("targets", ())]
    asking += found["annotations"]["list"]
    asking += [variable for variable in found["templating"]["list"] if variable["type"] == "query"]
    assert {json.dumps(one["datasource"], sort_keys=True) for one in asking} == {json.dumps(chosen)}
    assert (
        found["templating"]["list"][0] | {"name": "datasource", "type": "datasource"} == found["templating"]["list"][0]
    )


@every
def test_each_panel_says_what_it_shows_and_in_which_unit(path: Path) -> None:
    """Also what stands there while nothing was counted."""
    for panel in panels(board(path)):
        assert panel["title"], path.name
        assert len(panel["description"]) > 10, panel["title"]
        if panel["type"] != "text":
            assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
            assert panel["fieldConfig"]["defaults"]["noValue"], panel["title"]
            assert panel["targets"], panel["title"]


@every
def test_panels_have_numbers_and_room_of_their_own(path: Path) -> None:
    """Numbers are what links and annotations know a panel by; the grid is 24 wide."""
    found = board(path)
    assert len({panel["id"] for panel in found["panels"]}) == len(found["panels"])
    taken = boxes(found)
    assert all(x < 24 for cells in taken for x, _ in cells)
    assert not any(a & b for a, b in combinations(taken, 2))


def test_every_metric_and_every_label_is_one_of_ours() -> None:
    """As the catalogue of the telemetry has them; what an expression groups by is a label of something in it."""
    metrics = known()
    for where, expr, _ in of_dashboards():
        named = list(selectors(expr))
        assert named, where
        assert {name for name, _ in named} <= set(metrics), where
        assert all(labels <= metrics[name] for name, labels in named), where
        assert grouping(expr) <= PLACE | set().union(*(metrics[name] for name, _ in named)), where


def test_nothing_is_told_apart_by_session_or_user() -> None:
    """There is no end to them: they are on the live page."""
    for where, expr, _ in of_dashboards():
        used = grouping(expr).union(*(labels for _, labels in selectors(expr)))
        assert not used & FORBIDDEN, where


def test_what_is_in_a_legend_is_in_the_expression() -> None:
    """A label that was summed away would stand there as nothing."""
    for path in DASHBOARDS:
        for panel in panels(board(path)):
            for target in panel.get("targets", ()):
                used = set(re.findall(r"{{(\w+)}}", target.get("legendFormat", "")))
                plain = {name for name, _ in selectors(target["expr"])} & PROCESS
                assert used <= grouping(target["expr"]) | (PLACE if plain else set()), (path.stem, panel["title"])


@every
def test_every_variable_that_is_used_is_there_and_the_other_way_round(path: Path) -> None:
    """What can be chosen has an effect."""
    found = board(path)
    used = {a or b for text in texts(found) for a, b in re.findall(r"\$(?:{(\w+)[^}]*}|(\w+))", text)}
    defined = {variable["name"] for variable in found["templating"]["list"]}
    assert used - BUILT_IN == defined


def test_links_lead_to_pages_of_the_api_with_fields_that_they_have() -> None:
    """A path that the live page serves, and names of its query."""
    served = {route.path: {field.alias for field in route.dependant.query_params} for r in PAGE for route in r.routes}  # type: ignore[attr-defined]
    links = {
        url for path in DASHBOARDS for text in texts(board(path)) for url in re.findall(r"\${api_url}([^)\s]*)", text)
    }
    assert any(url.startswith("/ui/session?id=") for url in links)
    for url in links - {""}:
        parts = urlsplit(url)
        assert {name for name, _ in parse_qsl(parts.query)} <= served[parts.path], url


@every
def test_blocks_are_marked_and_the_others_are_a_click_away(path: Path) -> None:
    """Annotations, and links to the other dashboards and the live page."""
    found = board(path)
    assert [mark["name"] for mark in found["annotations"]["list"]] == ["Blocks", "Policy"]
    assert [(link["type"], link["title"]) for link in found["links"]] == [
        ("dashboards", "spanfuse"),
        ("link", "Live page"),
    ]

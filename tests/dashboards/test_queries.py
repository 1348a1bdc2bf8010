"""How events are counted: the first one, too, each in one interval, and none because Prometheus was away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dashboards.generator.queries import each, gained
from spanfuse_processor.telemetry.catalogue import DETECTIONS
from tests.services.prometheus import promtool, write_yaml
from tests.support.promql import substituted

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("tools")]

EACH, GAINED = each(DETECTIONS, by=("rule",)), gained(DETECTIONS, by=("rule",))


def series(name: str, values: str, **labels: str) -> dict[str, str]:
    place = {"job": "spanfuse-worker", "instance": "w1"} | labels
    return {"series": f"{name}{{{', '.join(f'{k}={v!r}' for k, v in place.items())}}}", "values": values}


def counted(folder: Path, values: str, *expected: tuple[str, str, float | None], info: str = "1x60") -> None:
    """Ask promtool; a sample every 15 s, steps of a minute, half an hour is shown.

    Args:
        expected: an expression, when it is asked, and what it comes to; none: nothing.
    """
    test: dict[str, Any] = {
        "interval": "15s",
        "input_series": [
            series("spanfuse_info", info, host="worker"),
            series("spanfuse_detections_total", values, rule="cycle", agent="a"),
        ],
        "promql_expr_test": [
            {
                "expr": substituted(expr, "30m", "1m"),
                "eval_time": at,
                "exp_samples": [] if value is None else [{"labels": "{rule='cycle'}", "value": value}],
            }
            for expr, at, value in expected
        ],
    }
    promtool("test", "rules", str(write_yaml(folder / "case.yaml", {"tests": [test]})))


def test_an_event_that_begins_its_series_counts_once(tmp_path: Path) -> None:
    """At 2 min, the first block of an agent; increase() alone says 0 of it."""
    counted(tmp_path, "_x8 1x40", (EACH, "2m", 1), (EACH, "3m", 0), (GAINED, "5m", 1))


def test_events_are_whole_and_each_is_in_one_interval(tmp_path: Path) -> None:
    """Two at 2 min 30 s."""
    counted(tmp_path, "4x9 6x40", (EACH, "2m", 0), (EACH, "3m", 2), (EACH, "4m", 0))


def test_a_counter_that_begins_anew_counts_from_0(tmp_path: Path) -> None:
    """The process was restarted, and met one since."""
    counted(tmp_path, "7x7 1x40", (EACH, "2m", 1), (EACH, "3m", 0))


def test_what_is_there_when_prometheus_comes_back_is_no_event(tmp_path: Path) -> None:
    """It was away for ten minutes; a bar of a thousand would be wrong."""
    away = "1x8 _x40 1x12"
    counted(tmp_path, "1000x8 _x40 1000x12", (EACH, "12m30s", None), (EACH, "13m30s", 0), info=away)


def test_what_a_process_that_is_gone_had_counted_stays_counted(tmp_path: Path) -> None:
    """In the time shown; its pod was replaced."""
    counted(tmp_path, "_x4 3x8", (GAINED, "20m", 3), info="1x12")

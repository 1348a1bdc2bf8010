"""docs/runbook.md names metrics that are measured, and each of its procedures says how it is known to be done."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spanfuse_processor.telemetry.catalogue import CATALOGUE

DOCS = Path(__file__).parents[2] / "docs"
RUNBOOK = (DOCS / "runbook.md").read_text(encoding="utf-8")
ALERTS = RUNBOOK.partition("## Alerts\n")[2]
MEASURED = {one.prometheus: one.kind for one in CATALOGUE}
PARTS = ("_bucket", "_sum", "_count")


def measured(name: str) -> bool:
    """Also the parts of a histogram."""
    histograms = {name.removesuffix(part) for part in PARTS if name.endswith(part)}
    return name in MEASURED or any(MEASURED.get(one) == "histogram" for one in histograms)


@pytest.mark.parametrize("page", ["runbook.md", "api.md", "dashboards.md"])
def test_the_metrics_that_are_named_are_measured(page: str) -> None:
    named = set(re.findall(r"`(spanfuse_[a-z_]+)(?:\{.*?\})?`", (DOCS / page).read_text(encoding="utf-8")))
    assert {name for name in named if not measured(name)} - {"spanfuse_schemas", "spanfuse_processor"} == set()


def test_what_is_no_metric_is_found() -> None:
    assert measured("spanfuse_end_to_end_delay_seconds_bucket")
    assert not measured("spanfuse_calls_total_bucket")
    assert not measured("spanfuse_blocks_total")


@pytest.mark.parametrize("section", re.split(r"^### ", ALERTS, flags=re.MULTILINE)[1:], ids=lambda s: s.split("\n")[0])
def test_each_alert_says_what_it_means_where_to_look_what_to_do_and_when_it_is_done(section: str) -> None:
    words = " ".join(re.findall(r"^- \*\*(.+?):\*\*", section, re.MULTILINE)).lower()
    assert [word for word in ("means", "look", "do", "done") if word not in words] == []

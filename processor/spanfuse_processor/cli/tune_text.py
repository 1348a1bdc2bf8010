"""What a study has found, for people."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from spanfuse_processor.cli.tables import PipedConsole, table
from spanfuse_processor.hosts.tuning.settings import rule_of
from spanfuse_processor.hosts.tuning.study import Study
from spanfuse_schemas.budget import dollars

MAX_POINTS: Final = 12
"""Points of the frontier that are shown; the JSON report has all."""
Row = dict[str, Any]


def show(found: Study, out: Path | None) -> None:
    """Print it.

    Args:
        out: the policy file that was asked for.
    """
    console = PipedConsole()
    report = found.to_dict()
    for part in _labelled(found, report, out) if found.trials.labels else _unlabelled(report):
        console.print(part)


def _labelled(found: Study, report: Row, out: Path | None) -> Iterator[RenderableType]:
    yield _labels(report)
    yield _beside(report["now"]["score"], report["recommended"]["score"] if report["policy"] else None)
    yield from _frontier(report["frontier"])
    yield from _held_out(report)
    for doubt in report["doubts"]:
        yield Text(f"{doubt}\n")
    yield Text(f"{report['why']}\n")
    if report["policy"]:
        yield _settings(found)
    if out is not None:
        yield Text(f"{out}: written." if report["policy"] else f"{out}: not written, since nothing is recommended.")


def _labels(report: Row) -> Table:
    made = table("Sessions", ">count", "of what")
    labels = report["labels"]
    made.add_row(str(report["sessions"]), "recorded")
    for name, said in (
        ("runaway", "runaways"),
        ("good", "good ones"),
        ("either", "of which neither a stop nor none is a mistake"),
        ("unlabelled", "without a label"),
        ("not_recorded", "labelled, and not in the recording"),
    ):
        made.add_row(str(labels[name]), said)
    return made


def _beside(now: Row, then: Row | None) -> Table:
    made = table("What would have been stopped", "what", ">as configured", *([">recommended"] if then else []))
    for said, part, whole in (
        ("runaways stopped", "stopped", "runaways"),
        ("good sessions stopped", "good_stopped", "good"),
        ("runaways stopped too early", "early", "runaways"),
        ("useless calls let through", "wasted_calls", "wasted_unguarded"),
    ):
        made.add_row(said, *(f"{one[part]} of {one[whole]}" for one in (now, then) if one))
    made.add_row("calls saved, of stopped runaways", *(str(one["saved_calls"]) for one in (now, then) if one))
    made.add_row("money saved, of stopped runaways", *(dollars(one["saved_nano_usd"]) for one in (now, then) if one))
    made.add_row(
        "useless calls before a stop, median", *(_or_none(one["calls_to_stop_p50"], "") for one in (now, then) if one)
    )
    made.add_row(
        "from beginning to detection, median", *(_or_none(one["seconds_p50"], " s") for one in (now, then) if one)
    )
    made.add_row("money spent meanwhile, median", *(_money(one["nano_usd_p50"]) for one in (now, then) if one))
    return made


def _or_none(value: float | None, unit: str) -> str:
    return "–" if value is None else f"{value:g}{unit}"


def _money(value: float | None) -> str:
    return "–" if value is None else dollars(round(value))


def _frontier(points: list[Row]) -> Iterator[RenderableType]:
    made = table("The frontier: nothing that was tried stops more runaways without a wrong stop more",
                 ">good stopped", ">runaways stopped", ">useless calls", "settings")  # fmt: skip
    for point in points[:MAX_POINTS]:
        score = point["score"]
        said = ", ".join(f"{name}: {value}" for name, value in point["settings"].items()) or "as configured"
        made.add_row(str(score["good_stopped"]), str(score["stopped"]), str(score["wasted_calls"]), Text(said))
    yield made
    if len(points) > MAX_POINTS:
        yield Text(f"… and {len(points) - MAX_POINTS} more points; all are in --report FILE.\n")


def _held_out(report: Row) -> Iterator[RenderableType]:
    held = report["held_out"]
    if held is None:
        return
    made = table(
        f"Chosen without the sessions that judge, in {held['folds']} parts", "what", ">as configured", ">chosen so"
    )
    for said, part, whole in (
        ("runaways stopped", "stopped", "runaways"),
        ("good sessions stopped", "good_stopped", "good"),
        ("useless calls let through", "wasted_calls", "wasted_unguarded"),
    ):
        made.add_row(said, *(f"{held[one][part]} of {held[one][whole]}" for one in ("now", "score")))
    made.add_row("sessions that go better, and worse", "", f"{held['better']}, {held['worse']}")
    yield made


def _settings(found: Study) -> Table:
    made = table("Recommended", "=setting", ">as configured", ">recommended")
    for rule, setting, value in found.recommended:
        made.add_row(f"{rule}.{setting}", str(getattr(rule_of(found.trials.policy, rule), setting)), str(value))
    return made


def _unlabelled(report: Row) -> Iterator[RenderableType]:
    sizes = table("Model calls per session", *(f">{name}" for name in ("at most", "sessions")))
    for percent, calls in report["calls_per_session"]["percentiles"].items():
        sizes.add_row("–" if calls is None else str(calls), f"{percent} %")
    yield sizes
    made = table(
        "What each value would stop, all else as configured", "setting", ">sessions", ">calls saved", ">money saved"
    )
    for point in (report["now"], *report["values"]):
        said = ", ".join(f"{name}: {value}" for name, value in point["settings"].items()) or "as configured"
        stopped = point["all"]
        numbers = (str(stopped["sessions_blocked"]), str(stopped["saved_calls"]), dollars(stopped["saved_nano_usd"]))
        made.add_row(Text(said), *numbers)
    yield made
    yield Text(report["why"])

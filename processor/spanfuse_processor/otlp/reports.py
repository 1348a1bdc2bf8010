"""Reports of Guards, which come as log events among those with content."""

from __future__ import annotations

from typing import Final

from pydantic import ValidationError

from spanfuse.emission.report_record import EVENT, PREFIX
from spanfuse_processor.otlp.span import LogRecord
from spanfuse_processor.otlp.times import MAX_AHEAD_NS
from spanfuse_schemas.guard_report import CallsMade, GuardReport, Refused
from spanfuse_schemas.names import normal_key, normal_name

_NAME_KEYS: Final = ("event.name", "event_name")
MAX_ROWS: Final = 1_000
"""Agents, or keys, of one report; a client sends a hundred."""


def is_report(record: LogRecord) -> bool:
    """Whether a record is a report of a Guard."""
    return record.event_name == EVENT or any(record.attributes.get(key) == EVENT for key in _NAME_KEYS)


def report_of(record: LogRecord, received_ns: int) -> GuardReport | None:
    """The report, with names as spans have them; none if it is of no use.

    Args:
        received_ns: when it was received, nanoseconds since the Unix epoch: a clock that is ahead is put right, as that of the
            spans.
    """
    fields = {key.removeprefix(PREFIX): value for key, value in record.attributes.items() if key.startswith(PREFIX)}
    try:
        report = GuardReport.model_validate(fields)
    except (ValidationError, ValueError):
        return None
    if len(report.calls) > MAX_ROWS or len(report.refusals) > MAX_ROWS:
        return None
    until_ns = report.until_ns if report.until_ns <= received_ns + MAX_AHEAD_NS else received_ns
    since_ns = max(0, min(until_ns - (report.until_ns - report.since_ns), until_ns))
    return report.model_copy(
        update={
            "since_ns": since_ns,
            "until_ns": until_ns,
            "calls": tuple(_named(made) for made in report.calls),
            "refusals": tuple(_keyed(one) for one in report.refusals),
        }
    )


def _named(made: CallsMade) -> CallsMade:
    return made.model_copy(update={"agent": normal_name(made.agent), "team": normal_name(made.team)})


def _keyed(one: Refused) -> Refused:
    return one.model_copy(update={"key": normal_key(one.key), "rule": normal_name(one.rule)})

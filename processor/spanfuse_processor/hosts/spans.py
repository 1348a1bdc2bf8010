"""Recorded spans with the log records that belong to them, in windows: so much is read at once, that late parents, the spans of
one call, and content that came as logs, are seen together as they finally are.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from spanfuse_processor.errors import DecodeError
from spanfuse_processor.hosts.recordings import STDIN, Problems, Recorded, find, requests
from spanfuse_processor.otlp.decode import decode, decode_logs
from spanfuse_processor.otlp.logs import Key, attach, content_name, event_of
from spanfuse_processor.otlp.reports import is_report, report_of
from spanfuse_processor.otlp.span import LogRecord, Span, SpanEvent
from spanfuse_schemas.guard_report import GuardReport

MAX_SPANS: Final = 20_000
"""Spans of a window; with their content some 100 MB. A larger recording is read in several, one after the other: a parent
or a log record that stands in a later window is too late for the spans of an earlier one."""
MAX_EVENTS: Final = 65_536
"""Log records that wait for their spans; further ones are left out, and counted."""
MAX_REPORTS: Final = 20_000
"""Reports of Guards that are kept; further ones are left out."""
_LOGS: Final = ".logs."
_TRACES: Final = ".traces."
_METRICS: Final = ".metrics."
LOGS_KEYS: Final = (b'"resourceLogs"', b'"resource_logs"')
_LOOK: Final = 4096
"""Bytes in which a JSON request says what it holds."""
_METRICS_KEYS: Final = (b'"resourceMetrics"', b'"resource_metrics"')
SPANS_KEYS: Final = (b'"resourceSpans"', b'"resource_spans"')


@dataclass(slots=True)
class Reading(Problems):
    """What was read, and what could not be."""

    requests: int = 0
    """Requests that were decoded."""
    logs_joined: int = 0
    """Log records that were joined to their spans."""
    logs_left: int = 0
    """Log records with content whose span is not there, or came in another window."""
    reports: list[GuardReport] = field(default_factory=list)
    """What Guards have told of themselves."""


def windows(paths: Iterable[Path], reading: Reading) -> Iterator[list[Span]]:
    """The spans of files and directories, in their order, those of several files together.

    Log records are read from the files that are given, and from the one beside `X.traces.bin` that is called `X.logs.bin`.

    Args:
        paths: files and directories, see `recordings`.
        reading: is told what becomes of them.
    """
    window = Window(reading)
    for path in with_logs(find(paths)):
        for recorded in _requests(path, reading):
            window.add(recorded, logs=is_logs(path))
            if len(window.spans) >= MAX_SPANS:
                yield window.cut()
    yield window.cut()
    reading.logs_left += window.waiting


class Window:
    """Spans, and the log records that wait for theirs."""

    def __init__(self, reading: Reading) -> None:
        self.spans: list[Span] = []
        self._reading = reading
        self._events: defaultdict[Key, list[SpanEvent]] = defaultdict(list)
        self.waiting = 0
        """Log records that have not met their span."""

    def add(self, recorded: Recorded, *, logs: bool = False) -> list[Span]:
        """Take a request of spans, of log records, or, in JSON, of either; its spans."""
        if recorded.data is None:
            self._reading.fail(recorded.where, "longer than any export request")
            return []
        try:
            spans, records = decoded(recorded, logs=logs)
        except DecodeError as error:
            self._reading.fail(recorded.where, str(error))
            return []
        self._reading.requests += 1
        self.spans += spans
        for record in records:
            self._log(record)
        return spans

    def _log(self, record: LogRecord) -> None:
        if is_report(record):
            self._report(record)
            return
        name = content_name(record)
        if not name:
            return
        if not record.trace_id or not record.span_id or self.waiting >= MAX_EVENTS:
            self._reading.logs_left += 1
            return
        self._events[record.trace_id, record.span_id].append(event_of(record, name))
        self.waiting += 1

    def _report(self, record: LogRecord) -> None:
        report = report_of(record, record.time_ns)
        if report is not None and len(self._reading.reports) < MAX_REPORTS:
            self._reading.reports.append(report)

    def cut(self) -> list[Span]:
        """The spans up to here, with what was logged for them; a new window begins."""
        spans, self.spans = self.spans, []
        for span in spans if self._events else ():
            events = self._events.pop((span.trace_id, span.span_id), None)
            if events:
                attach(span, events)
                self.waiting -= len(events)
                self._reading.logs_joined += len(events)
        return spans


def is_logs(path: Path) -> bool:
    """Whether a file is called one of log records."""
    return _LOGS in path.name


def with_logs(files: Iterable[Path]) -> Iterator[Path]:
    """The files, each of spans after the one of log records that stands beside it."""
    files = list(files)
    known = set(files)
    for path in files:
        beside = path.with_name(path.name.replace(_TRACES, _LOGS))
        if beside not in known and beside.is_file():
            known.add(beside)
            yield beside
        yield path


def _requests(path: Path, reading: Reading) -> Iterator[Recorded]:
    try:
        yield from requests(path)
    except (OSError, EOFError, zlib.error) as error:
        reading.fail("standard input" if path == STDIN else path.name, str(error))


def decoded(recorded: Recorded, *, logs: bool) -> tuple[list[Span], list[LogRecord]]:
    """The spans and log records of one request; none of one of metrics.

    Args:
        logs: for protobuf, which does not say: whether it is one of log records.

    Raises:
        DecodeError: it cannot be used.
    """
    data, encoding = recorded.data or b"", recorded.encoding
    if _METRICS in recorded.where or (encoding == "json" and any(key in data[:_LOOK] for key in _METRICS_KEYS)):
        return [], []
    if encoding == "json" and any(key in data for key in LOGS_KEYS):
        spans = decode(data, encoding) if any(key in data for key in SPANS_KEYS) else []
        return spans, decode_logs(data, encoding)
    return ([], decode_logs(data, encoding)) if logs else (decode(data, encoding), [])

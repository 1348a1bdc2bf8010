"""What the processor writes on standard error: lines for people, or an object per line, with the ids of the trace at hand.

Nothing that a model was told or said gets there: of an error that is none of ours, only its type and where it happened, since
its text may quote what came.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from types import TracebackType
from typing import IO, Any, Final

from spanfuse_processor.config.telemetry import Logs
from spanfuse_processor.errors import SpanfuseError

OURS: Final = ("spanfuse_processor", "spanfuse", "spanfuse_schemas")
"""Loggers to which the level applies; of others, warnings and worse are written."""
MAX_CHARS: Final = 10_000
"""Longest message, characters."""
_LEVELS: Final = {logging.WARNING: "WARN"}
"""Names of levels, where OpenTelemetry has others than Python."""

_Raised = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def set_up(settings: Logs, stream: IO[str] | None = None) -> None:
    """Have all loggers of the process write to a stream, in place of what was set up before.

    Args:
        stream: default: standard error.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in OURS:
        logging.getLogger(name).setLevel(settings.level.upper())


def say(line: str) -> None:
    """Write a line that belongs to a process and to no level: that it is up, what it has counted. Among objects it is one."""
    handlers = [handler for handler in logging.getLogger().handlers if isinstance(handler.formatter, JsonFormatter)]
    if not handlers:
        print(line, file=sys.stderr, flush=True)
    for handler in handlers:
        handler.handle(logging.LogRecord("spanfuse_processor", logging.INFO, __file__, 0, line, None, None))


class _Formatter(logging.Formatter):
    """Tells of errors without their text, unless they are ours."""

    def formatException(self, ei: _Raised) -> str:
        """The calls that led to an error, and its type."""
        kind, error, at = ei
        if kind is None or error is None:
            return ""
        lines = [f'  File "{f}", line {n}, in {name}' for f, n, name in _frames(at)]
        text = f": {error}" if isinstance(error, SpanfuseError) else ""
        return "\n".join([*lines, f"{kind.__module__}.{kind.__qualname__}{text}"])


class TextFormatter(_Formatter):
    """`2026-01-02T03:04:05.678Z WARN hosts.embedded: …`, and the trace where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, or lines where there is an error."""
        name = record.name.removeprefix("spanfuse_processor.")
        trace = "".join(f" {key}={value}" for key, value in _trace().items())
        found = f"{_at(record)} {_level(record)} {name}: {_message(record)}{trace}"
        return f"{found}\n{self.formatException(record.exc_info)}" if record.exc_info else found


class JsonFormatter(_Formatter):
    """An object per line; fields as OpenTelemetry names those of log records and exceptions."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        found: dict[str, Any] = {
            "timestamp": _at(record),
            "severity_text": _level(record),
            "logger": record.name,
            "body": _message(record),
            **_trace(),
        }
        if record.exc_info and record.exc_info[0] is not None:
            found["exception.type"] = record.exc_info[0].__qualname__
            found["exception.stacktrace"] = self.formatException(record.exc_info)
        return json.dumps(found, ensure_ascii=False, separators=(",", ":"))


def _frames(at: TracebackType | None) -> list[tuple[str, int, str]]:
    found = []
    while at is not None:
        code = at.tb_frame.f_code
        found.append((code.co_filename, at.tb_lineno, code.co_name))
        at = at.tb_next
    return found


def _at(record: logging.LogRecord) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z"


def _level(record: logging.LogRecord) -> str:
    return _LEVELS.get(record.levelno, record.levelname)


def _message(record: logging.LogRecord) -> str:
    """The message on one line, of bounded length."""
    found = record.getMessage()[:MAX_CHARS]
    return found if found.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in found)


def _trace() -> dict[str, str]:
    from opentelemetry.trace import format_span_id, format_trace_id, get_current_span

    context = get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {"trace_id": format_trace_id(context.trace_id), "span_id": format_span_id(context.span_id)}

"""The error tree of the processor.

SpanfuseError
├── ConfigError        the configuration cannot be used: says every problem, with path and line
├── DecodeError        bytes that are no spans: permanent, never retried (dead letter, 400)
├── QueryError         what was asked for cannot be: a cursor of another list, a key that is none (400)
├── StateError         a snapshot this version cannot restore
└── UnavailableError   a service that is needed does not answer: may be retried
"""

from __future__ import annotations


class SpanfuseError(Exception):
    """Base of all errors of the processor; the message is one line for the operator."""


class ConfigError(SpanfuseError):
    """The configuration cannot be used.

    Args:
        problems: one line each, with the path and line of the offending key.
    """

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class DecodeError(SpanfuseError):
    """Bytes that are no ExportTraceServiceRequest: permanent, so they go to the dead letters and are not retried."""


class QueryError(SpanfuseError):
    """What was asked for cannot be answered, whatever the state: a cursor of another list, a key that is none."""


class StateError(SpanfuseError):
    """A snapshot that this version cannot restore."""


class UnavailableError(SpanfuseError):
    """A service that is needed (Kafka, Redis, the API) does not answer; trying again may help."""

"""A checkup of files, or of a topic: every span is read as ingest would, and what it shows is gathered."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from spanfuse_processor.hosts.doctor.checks import findings
from spanfuse_processor.hosts.doctor.finding import Finding
from spanfuse_processor.hosts.doctor.sample import Sample
from spanfuse_processor.hosts.inspect import verdicts
from spanfuse_processor.hosts.recordings import Recorded
from spanfuse_processor.hosts.spans import MAX_SPANS, Reading, Window, windows
from spanfuse_processor.otlp.decode import sniff
from spanfuse_processor.otlp.normalise import Normaliser
from spanfuse_processor.otlp.span import Span


class Checkup:
    """Takes files and messages, and then tells what it found.

    Args:
        normaliser: makes calls of spans.
    """

    def __init__(self, normaliser: Normaliser) -> None:
        self.reading = Reading()
        self._normaliser = normaliser
        self._sample = Sample()
        self._window = Window(self.reading)

    def files(self, paths: Iterable[Path]) -> None:
        """Take files and directories, see `recordings`."""
        for spans in windows(paths, self.reading):
            self._sample.arrived(spans, None, None)
            self._judge(spans)

    def message(self, message: Any) -> None:
        """Take a message of a topic, received when the broker says; one of log records if its topic is called so."""
        data = message.value or b""
        where = f"{message.topic} partition {message.partition} offset {message.offset}"
        spans = self._window.add(Recorded(data, sniff(data), where), logs="logs" in message.topic)
        self._sample.arrived(spans, message.timestamp * 1_000_000, message.partition)
        if len(self._window.spans) >= MAX_SPANS:
            self._judge(self._window.cut())

    def _judge(self, spans: list[Span]) -> None:
        for verdict in verdicts(spans, self._normaliser):
            self._sample.judged(verdict)

    def finished(self) -> list[Finding]:
        """What was found, once everything has been taken."""
        self._judge(self._window.cut())
        self.reading.logs_left += self._window.waiting
        for report in self.reading.reports:
            self._sample.reported(report)
        read = ("requests", "undecodable", "logs_joined", "logs_left")
        self._sample.counts.update({name: getattr(self.reading, name) for name in read})
        return findings(self._sample, self._normaliser.counters)

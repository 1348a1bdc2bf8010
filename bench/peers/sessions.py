"""Recordings to sessions: the model calls of each, as peers are shown them. They are those that `spanfuse replay` counts."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from bench.peers.messages import chat, steps
from bench.peers.protocol import Call
from spanfuse_processor.core.pricing import Prices
from spanfuse_processor.errors import DecodeError
from spanfuse_processor.hosts.recordings import requests
from spanfuse_processor.otlp.decode import decode
from spanfuse_processor.otlp.dialects import dialect_of
from spanfuse_processor.otlp.dialects.sources import read_sources
from spanfuse_processor.otlp.normalise import Normaliser
from spanfuse_processor.otlp.span import STATUS_ERROR, Span
from spanfuse_schemas import Call as Counted


def recordings(folder: Path) -> list[Path]:
    """The OTLP files of a folder, by name."""
    return sorted(path for end in ("*.otlp.jsonl", "*.otlp.jsonl.gz") for path in folder.glob(end))


def name_of(path: Path) -> str:
    """A file's name without its ends."""
    return path.name.removesuffix(".gz").removesuffix(".otlp.jsonl")


class Sessions:
    """The sessions of one file, in the order of their first calls; on disk, so that memory holds one at a time."""

    def __init__(self, file: sqlite3.Connection) -> None:
        self._file = file
        file.execute(
            "CREATE TABLE calls (session TEXT, n INTEGER, span TEXT UNIQUE, call BLOB, PRIMARY KEY (session, n))"
        )
        self.names: dict[str, int] = {}
        """Session id → model calls."""

    def add(self, counted: Counted, call: dict[str, Any]) -> None:
        """Add the next call of a session; one that was added before, by the ids of its span, is left out."""
        number = self.names.get(counted.session, 0)
        data = zlib.compress(json.dumps(call).encode(), 1)
        row = (counted.session, number, counted.trace_id + counted.span_id, data)
        if self._file.execute("INSERT OR IGNORE INTO calls VALUES (?, ?, ?, ?)", row).rowcount:
            self.names[counted.session] = number + 1

    def __iter__(self) -> Iterator[tuple[str, list[Call]]]:
        for name in self.names:
            rows = self._file.execute("SELECT call FROM calls WHERE session = ? ORDER BY n", (name,))
            found = [json.loads(zlib.decompress(data)) for (data,) in rows]
            following = [call["messages"] for call in found[1:]] + [[]]
            for call, after in zip(found, following, strict=True):
                call["steps"] = steps(call.pop("reply"), after)
            yield name, found


@contextmanager
def read(path: Path) -> Iterator[Sessions]:
    """The sessions of one file, for as long as the context lasts; of a file that ends early, those up to there."""
    with closing(sqlite3.connect("")) as file:  # SQLite's name for a private temporary database
        sessions, normaliser = Sessions(file), Normaliser(Prices())
        with suppress(OSError, EOFError, zlib.error):
            for recorded in requests(path):
                with suppress(DecodeError):
                    _add(sessions, normaliser, decode(recorded.data or b"", recorded.encoding))
        yield sessions


def _add(sessions: Sessions, normaliser: Normaliser, spans: list[Span]) -> None:
    known = {(span.trace_id, span.span_id): span for span in spans}
    for counted in normaliser.batch(spans, max((span.end_ns for span in spans), default=0)).calls:
        if counted.kind == "llm":
            sessions.add(counted, _call(counted, known[counted.trace_id, counted.span_id]))


def _call(counted: Counted, span: Span) -> dict[str, Any]:
    dialect = dialect_of(span)
    given, reply = read_sources(dialect.input, span, "user"), read_sources(dialect.output, span, "assistant")
    return {
        "start_s": counted.start_ns / 1e9,
        "end_s": counted.end_ns / 1e9,
        "model": counted.model,
        "failed": span.status_code == STATUS_ERROR or bool(counted.error_type),
        "cost_usd": counted.cost_nano_usd / 1e9,
        "messages": chat(given) if isinstance(given, list) else [],
        "reply": chat(reply) if isinstance(reply, list) else [],
    }

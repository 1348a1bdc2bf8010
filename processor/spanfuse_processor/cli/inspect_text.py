"""What `inspect` found, for people: a table for each trace, and what all spans come to."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.text import Text

from spanfuse_processor.cli.options import printable
from spanfuse_processor.cli.tables import PipedConsole, table
from spanfuse_processor.hosts.spans import Reading
from spanfuse_schemas.budget import dollars

MAX_ARGUMENT_CHARS: Final = 200
"""Of the arguments of a tool call so much is shown; the JSON has all."""
MAX_INDENT: Final = 8
"""Levels below a root that are indented."""

_SPAN: Final = re.compile(r"\bspan [0-9a-f]{16}\b")
IDENTITY: Final = ("session", "session_source", "agent", "user", "team", "model")

Row = dict[str, Any]


class Shown:
    """Prints rows, and remembers what they come to."""

    def __init__(self) -> None:
        self._console = PipedConsole()
        self._counted: Counter[str] = Counter()
        self._left: Counter[str] = Counter()
        self._tokens: Counter[str] = Counter()
        self._sessions: set[str] = set()

    def show(self, rows: Sequence[Row]) -> None:
        """Print what became of some spans, by trace."""
        traces: defaultdict[str, list[Row]] = defaultdict(list)
        for row in rows:
            traces[row["trace_id"]].append(row)
            self._add(row)
        for trace, inside in traces.items():
            common = _common(inside)
            title = ", ".join([f"Trace {trace or 'unknown'}", *_who(common)])
            made = table(title, "span", "=as", ">tokens", ">cost", "why")
            for depth, row in _down(inside):
                name = Text(f"{'  ' * min(depth, MAX_INDENT)}{printable(row['name'])}\n{row['span_id']}")
                why = Text("\n".join(_why(row, common)))
                made.add_row(name, f"{row['kind']}\n{row['dialect']}", _tokens(row), _cost(row), why)
            self._console.print(made)

    def _add(self, row: Row) -> None:
        if not row["counted"]:
            self._left[_SPAN.sub("another span", row["reason"])] += 1
            return
        self._counted[row["kind"]] += 1
        self._tokens += Counter(row["tokens"])
        self._tokens["cost"] += row["cost_nano_usd"]
        self._sessions.add(row["session"])

    def sum_up(self, reading: Reading) -> None:
        """Print what all comes to."""
        told = [
            f"{self._counted['llm']} model calls and {self._counted['tool']} tool executions count, "
            f"in {len(self._sessions)} sessions: {self._tokens['input']:,} tokens in, {self._tokens['output']:,} out, "
            f"{dollars(self._tokens['cost'])}.",
        ]
        told += [f"{number} do not: {reason}." for reason, number in self._left.most_common()]
        if reading.logs_joined or reading.logs_left:
            told.append(f"Log records: {reading.logs_joined} joined to their spans, {reading.logs_left} without one.")
        for line in told:
            self._console.print(Text(line))


def _down(rows: Sequence[Row]) -> Iterator[tuple[int, Row]]:
    """Spans below their parents, with their depth."""
    known = {row["span_id"] for row in rows}
    below: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        parent = row["parent_span_id"]
        below[parent if parent in known and parent != row["span_id"] else ""].append(row)
    todo = [(0, row) for row in reversed(below.pop("", []))]
    while todo:
        depth, row = todo.pop()
        yield depth, row
        todo += [(depth + 1, inner) for inner in reversed(below.pop(row["span_id"], []))]
    for left in below.values():  # spans that are each other's parents
        yield from ((0, row) for row in left)


def _common(rows: Sequence[Row]) -> Row:
    """What all spans of a trace say alike, as far as they say anything."""
    said = {key: {row[key] for row in rows if row[key]} for key in IDENTITY}
    return {key: values.pop() if len(values) == 1 else "" for key, values in said.items()}


def _who(row: Row) -> Iterator[str]:
    if row["session"] and row["session_source"] == "trace":
        yield "no session but the trace"
    elif row["session"]:
        source = f" ({row['session_source']})" if row["session_source"] else ""
        yield f"session {printable(row['session'])}{source}"
    yield from (f"{key} {printable(row[key])}" for key in ("agent", "user", "team", "model") if row[key])


def _tokens(row: Row) -> str:
    tokens = row["tokens"]
    if row["kind"] != "llm" or not tokens["input"] + tokens["output"]:
        return ""
    about, cached = "~" if row["usage_estimated"] else "", tokens["cache_read"] + tokens["cache_write"]
    lines = [
        f"{about}{tokens['input']:,} in",
        f"{about}{tokens['output']:,} out",
        f"{cached:,} cached" if cached else "",
    ]
    return "\n".join(filter(None, lines))


def _cost(row: Row) -> str:
    return f"{dollars(row['cost_nano_usd'])}\n{row['cost_source']}" if row["cost_source"] else ""


def _why(row: Row, common: Row) -> Iterator[str]:
    """Why a span counts or not, and what is known of it that does not hold for all."""
    yield ("" if row["counted"] else "not counted: ") + row["reason"]
    own = {key: row[key] if row[key] != common[key] else "" for key in IDENTITY}
    yield from _who(own)
    if row["session_source"] == "inherited" and row["counted"]:
        yield "session inherited"
    if row["error"]:
        yield f"failed: {printable(row['error'])}"
    for call in row["tool_calls"]:
        yield f"calls {printable(call['name'])} {_short(call['arguments'])}"
    if row["arguments"] is not None:
        yield f"with {_short(row['arguments'])}"
    if row["counted"] and row["content"] == "structure":
        yield "no content"


def _short(arguments: Any) -> str:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return printable(text if len(text) <= MAX_ARGUMENT_CHARS else f"{text[:MAX_ARGUMENT_CHARS]}…")

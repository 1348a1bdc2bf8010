"""What each recording has to come to, and what it comes to: `python -m tests.otlp.truth` prints both.

The recordings are in the folder that SPANFUSE_CAPTURES names, or in `../shared/captures` beside the checkout. Each scenario
was run against the same endpoint: 1200 input tokens (10 more per tool result), 1024 of them cached, 50 output tokens, 20 of
them reasoning; Anthropic: 1500, 1024 read and 300 written, 50. `session` was told session `sess-42`, user `user-7` and team
`payments`, in the way of each library. What a library does not record is in `tests.otlp.gaps`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from spanfuse.reading.texts import print_of
from spanfuse_processor.otlp.decode import decode, decode_logs, sniff
from spanfuse_processor.otlp.span import LogRecord, Span
from spanfuse_schemas import Action, Call, Message
from spanfuse_schemas.fingerprint import action_print, input_print
from tests.otlp.fixtures import NOW_NS, normaliser
from tests.otlp.gaps import ABOUT, Gap, gaps

FOLDER: Final = Path(os.environ.get("SPANFUSE_CAPTURES") or Path(__file__).parents[3] / "shared" / "captures")
RECORDED: Final = sorted((path.parent.name, path.name.split(".")[0]) for path in FOLDER.glob("*/*.traces.bin"))
"""Capture and scenario."""

STEPS: Final[tuple[tuple[str, dict[str, Any], str], ...]] = (
    ("get_weather", {"city": "Paris"}, '{"city": "Paris", "temp_c": 21.0}'),
    ("get_weather", {"city": "London"}, '{"city": "London", "temp_c": 18.5}'),
    ("convert_temp", {"celsius": 18.5}, "65.3"),
)
"""Tool, arguments and result of the steps that an agent takes in `tools`, before it answers."""
_BY_JAVASCRIPT: Final = ({"city": "Paris", "temp_c": 21}, {"city": "London", "temp_c": 18.5}, {"f": 65.3})
_QUESTIONS: Final = (
    "What is the capital of France?",
    "And of Spain?",
    "What is the weather in Paris and London, and the London value in Fahrenheit?",
    "TRIGGER_ERROR please",
    "Weather in Paris?",
)
_ANSWERS: Final = ("The capital of France is Paris.", "The capital of France is Paris. ")
_LAST: Final = ("Paris is 21C, London 18.5C (65.3F).", "Paris is 21C, London 18.5C (65.3F). ")

NANO_USD: Final = {"openai": (150, 75, 0, 600), "anthropic": (3000, 300, 3750, 15_000)}
"""Prices of gpt-4o-mini and claude-sonnet-4-5 per token: fresh, read, written, output."""

Row = Mapping[str, tuple[Any, ...]]
"""Field → one value for each model call, or for each tool execution."""


class Cell(NamedTuple):
    """What a field has to hold, and why that is not the truth, where it is not."""

    value: tuple[Any, ...]
    why: str = ""


def _labels() -> dict[Any, str]:
    """Fingerprint → what it is of."""
    found: dict[Any, str] = {print_of(""): ""}
    for i, (tool, arguments, result) in enumerate(STEPS):
        for value in (result, *forms(result), _BY_JAVASCRIPT[i]):
            found[print_of(value)] = f"result {i + 1}"
            found[input_print([Message(role="tool", print=print_of(value))])] = f"result {i + 1}"
        found[action_print([Action(tool=tool, print=print_of(arguments))])] = f"{tool} {next(iter(arguments.values()))}"
    for text in _QUESTIONS:
        found[input_print([Message(role="user", print=print_of(text))])] = "question"
    for text in (*_ANSWERS, *_LAST):
        found[action_print([Action(print=print_of(text))])] = "answer"
    found[action_print([Action(print=print_of(""))])] = ""
    return found


def forms(result: str) -> tuple[Any, ...]:
    """The values that the same result may be read as: parsed, and wrapped as ADK wraps what is no mapping."""
    from spanfuse.reading.texts import tool_arguments

    return (tool_arguments(result), {"result": result})


LABELS: Final = _labels()


def spans(capture: str, scenario: str, suffix: str = "bin") -> list[Span]:
    """The spans of a recording."""
    data = (FOLDER / capture / f"{scenario}.traces.{suffix}").read_bytes()
    return decode(data, sniff(data))


def logs(capture: str, scenario: str, suffix: str = "bin") -> list[LogRecord]:
    """Its log records, which hold the content of some."""
    path = FOLDER / capture / f"{scenario}.logs.{suffix}"
    return decode_logs(data, sniff(data)) if path.exists() and (data := path.read_bytes()) else []


def recorded(capture: str, scenario: str, suffix: str = "bin") -> tuple[Call, ...]:
    """The calls that a recording comes to in one request, with what its logs hold."""
    ingest = normaliser()
    ingest.logs(logs(capture, scenario, suffix), 2 * NOW_NS)
    return ingest.batch(spans(capture, scenario, suffix), 2 * NOW_NS).calls


def expected(capture: str, scenario: str) -> dict[str, Cell]:
    """What the recording has to come to."""
    about = ABOUT[capture]
    count = about.calls.get(scenario, {"tools": 4, "session": 2}.get(scenario, 1))
    cells = {field: Cell(value) for field, value in _truth(scenario, count).items()}
    cells["agent"] = Cell((about.agents.get(scenario, about.agent) if count or scenario == "tools" else "",))
    for gap in gaps(capture, scenario):
        cells[gap.field] = Cell(_filled(gap, len(cells[gap.field].value)), gap.why)
    if "cost" not in {gap.field for gap in gaps(capture, scenario)}:
        cells["cost"] = Cell(_cost(cells), cells["read"].why)
    return cells


def _filled(gap: Gap, count: int) -> tuple[Any, ...]:
    return gap.value if isinstance(gap.value, tuple) else (gap.value,) * count


def _truth(scenario: str, count: int) -> dict[str, tuple[Any, ...]]:
    """What happened."""
    tools, failed, claude = scenario == "tools", scenario == "error", scenario == "anthropic"
    told = scenario == "session"
    steps = [f"{tool} {next(iter(arguments.values()))}" for tool, arguments, _ in STEPS] if tools else []
    results = [f"result {i + 1}" for i in range(len(steps))]
    whole = 0 if failed else 1500 if claude else 1200
    model = "claude-sonnet-4-5" if claude else "gpt-4o-mini" if failed else "gpt-4o-mini-2024-07-18"
    return {
        "calls": (count,),
        "streams": (True,) * count if scenario == "stream" else (),
        "input": tuple(whole + 10 * i * tools for i in range(count)),
        "output": (0 if failed else 50,) * count,
        "read": (0 if failed else 1024,) * count,
        "written": (300 if claude else 0,) * count,
        "thought": (0 if failed or claude else 20,) * count,
        "cost": (),
        "provider": ("anthropic" if claude else "openai",) * count,
        "model": (model,) * count,
        "finish": ("",) * count if failed else (*["tool_calls"] * len(steps), *["stop"] * (count - len(steps))),
        "error": ("client BadRequestError" if failed else "",) * count,
        "hears": (*["question"] * (count - len(results)), *results),
        "does": ("",) * count if failed else (*steps, *["answer"] * (count - len(steps))),
        "session": ("sess-42" if told else "",),
        "user": ("user-7" if told else "",),
        "team": ("payments" if told else "",),
        "agent": (),
        "ran": tuple(steps),
        "brought": tuple(results),
    }


def _cost(cells: Mapping[str, Cell]) -> tuple[int, ...]:
    columns = (cells[field].value for field in ("provider", "input", "read", "written", "output"))
    found = []
    for provider, whole, read, written, output in zip(*columns, strict=True):
        prices = NANO_USD[provider]
        found.append(sum(p * n for p, n in zip(prices, (whole - read - written, read, written, output), strict=True)))
    return tuple(found)


def found(calls: Iterable[Call], *, streamed: bool = False) -> Row:
    """What they come to.

    Args:
        streamed: whether they are known to be streams, which have a time to their first token.
    """
    every = list(calls)
    models, tools = [c for c in every if c.kind == "llm"], [c for c in every if c.kind == "tool"]
    return {
        "calls": (len(models),),
        "streams": tuple(0 < c.ttft_ns < c.end_ns - c.start_ns for c in models) if streamed else (),
        "input": tuple(-1 if c.usage_estimated else c.tokens.input for c in models),
        "output": tuple(c.tokens.output for c in models),
        "read": tuple(c.tokens.cache_read for c in models),
        "written": tuple(c.tokens.cache_write for c in models),
        "thought": tuple(c.tokens.reasoning for c in models),
        "cost": tuple(c.cost_nano_usd for c in models),
        "provider": tuple(c.provider for c in models),
        "model": tuple(c.model for c in models),
        "finish": tuple(c.finish_reason for c in models),
        "error": tuple(f"{c.error_class} {c.error_type.rpartition('.')[2]}".strip() for c in models),
        "hears": tuple("" if c.input is None else LABELS.get(c.input, "?") for c in models),
        "does": tuple(_does(c) for c in models),
        "session": _of_all("" if c.session_source == "trace" else c.session for c in every),
        "user": _of_all(c.user for c in every),
        "team": _of_all(c.team for c in every),
        "agent": _of_all(c.agent for c in every),
        "ran": tuple(_does(c) for c in tools),
        "brought": tuple("" if c.output is None else LABELS.get(c.output, "?") for c in tools),
    }


def _does(call: Call) -> str:
    tools = " ".join(call.called)
    if call.action is None or not call.action.canon:
        return tools
    return LABELS.get(call.action, f"{tools} ?".strip())


def _of_all(values: Iterable[str]) -> tuple[str, ...]:
    return (" ".join(sorted({"uuid" if len(v) == 36 and v.count("-") == 4 else v for v in values})),)


def wrong(capture: str, scenario: str) -> dict[str, tuple[Cell, tuple[Any, ...]]]:
    """The fields of a recording that do not hold what they have to."""
    has = found(recorded(capture, scenario), streamed=scenario == "stream")
    return {f: (cell, has[f]) for f, cell in expected(capture, scenario).items() if cell.value != has[f]}


def _line(capture: str, scenario: str) -> list[str]:
    cells, bad = expected(capture, scenario), wrong(capture, scenario)
    what = ", ".join(f"{f} {_shown(cells[f].value)}" for f in cells if f not in bad and not cells[f].why)
    lines = [f"{'✗' if bad else '✓'} {capture}/{scenario}: {what}"]
    lines += [
        f"    {f}: {_shown(c.value) or 'not emitted'} ({c.why})" for f, c in cells.items() if c.why and f not in bad
    ]
    return lines + [f"  ✗ {f}: expected {_shown(c.value)}, found {_shown(has)}" for f, (c, has) in bad.items()]


def _shown(values: tuple[Any, ...]) -> str:
    """One value where all are the same."""
    texts = [str(v) or "–" for v in values]
    return texts[0] if len(set(texts)) == 1 else " · ".join(texts) or "–"


def main() -> int:
    """Print a row for each recording; 1 if one of them is wrong."""
    rows = [_line(*recording) for recording in RECORDED]
    print("\n".join(line for row in rows for line in row))
    wrongs = sum(row[0].startswith("✗") for row in rows)
    print(f"{len(rows)} recordings, {wrongs} wrong")
    return bool(wrongs)


if __name__ == "__main__":
    sys.exit(main())

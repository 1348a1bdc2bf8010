"""The reference of metrics, made from the catalogue: `python -m spanfuse_processor.telemetry.docs > docs/metrics.md`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from spanfuse_processor.telemetry.catalogue import (
    ATTRIBUTES,
    CATALOGUE,
    DELAYS,
    DURATIONS,
    MAX_SETS,
    OPEN,
    SIZES,
    Instrument,
    Kind,
)
from spanfuse_processor.telemetry.labels import MAX_CHARS, NONE, OTHER

_HEAD: Final = """\
# Metrics

Made from the catalogue itself by `python -m spanfuse_processor.telemetry.docs > docs/metrics.md`; do not edit. How to have
them, and what to alert on, tells [telemetry](telemetry.md).

Names are those of Prometheus; over OTLP an instrument has dots, such as `spanfuse.calls` for `spanfuse_calls_total`. Every
`/metrics` has `target_info` with the resource, and `process_*` with processor time, memory, open files and the start, too.
Counters with attributes count since the start of the process; those without, of `spanfuse up`, since its database was made.
"""
_HOSTS: Final = {
    "embedded": "`spanfuse up`",
    "worker": "`spanfuse worker`",
    "api": "`spanfuse api`",
    "proxy": "`spanfuse proxy`",
}
_TITLES: Final[dict[Kind, str]] = {"counter": "Counters", "histogram": "Histograms", "gauge": "Gauges"}


def markdown() -> str:
    """The whole reference."""
    return "\n".join([_HEAD, *_kinds(), *_buckets(), *_attributes()])


def _kinds() -> Iterator[str]:
    for kind, title in _TITLES.items():
        rows = [_row(instrument) for instrument in CATALOGUE if instrument.kind == kind]
        yield f"## {title}\n\n| name | attributes | what | of |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"


def _row(instrument: Instrument) -> str:
    attributes = ", ".join(f"`{name}`" for name in instrument.attributes) or "—"
    hosts = ", ".join(instrument.hosts)
    return f"| `{instrument.prometheus}` | {attributes} | {instrument.about} | {hosts} |"


def _buckets() -> Iterator[str]:
    yield "## Buckets of histograms\n"
    for what, bounds in (
        ("delays, seconds", DELAYS),
        ("pieces of work, seconds", DURATIONS),
        ("batches, calls", SIZES),
    ):
        yield f"- {what}: {', '.join(f'{bound:g}' for bound in bounds)}"
    yield ""


def _attributes() -> Iterator[str]:
    rows = [f"| `{name}` | {about} | {'yes' if name in OPEN else '—'} |" for name, about in sorted(ATTRIBUTES.items())]
    yield (
        "## Attributes\n\n"
        f"An instrument tells {MAX_SETS} sets of attributes apart in the life of a process; of what comes later, those that "
        f"come from outside are `{OTHER}`. Names are cut after {MAX_CHARS} characters, and what cannot be printed is replaced; "
        f"`{NONE}` stands for what a call does not name. No session, user or trace is ever one.\n\n"
        "| attribute | values | from outside |\n|---|---|---|\n" + "\n".join(rows) + "\n\n"
        "What a metric is of: " + ", ".join(f"{name}: {command}" for name, command in _HOSTS.items()) + "."
    )


if __name__ == "__main__":
    print(markdown())

"""What a batch adds to the read model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final, NamedTuple

from spanfuse_processor.exporters.readmodel.model import MinuteRow, SeriesKind, SessionRow, StepRow
from spanfuse_schemas import Decision, Detection

MINUTE_NS: Final = 60 * 10**9


class Owner(NamedTuple):
    """Whose a session is, by its last call that says so."""

    agent: str = ""
    user: str = ""
    team: str = ""
    model: str = ""


@dataclass(slots=True)
class Sums:
    """What came together within a minute."""

    calls: int = 0
    cost_nano_usd: int = 0
    tokens: int = 0
    blocks: int = 0

    def add(self, other: Sums) -> None:
        """Take in more."""
        self.calls += other.calls
        self.cost_nano_usd += other.cost_nano_usd
        self.tokens += other.tokens
        self.blocks += other.blocks


Minute = tuple[SeriesKind, str, int]
"""Whose, its name, and the number of the minute."""


@dataclass(slots=True)
class Facts:
    """What a batch adds. All of it is content-free."""

    rows: list[SessionRow] = field(default_factory=list)
    """Sessions as they are now, without `detections` and `would_block`, which are added up here from `found`."""
    owners: dict[str, Owner] = field(default_factory=dict)
    """Session → whose it is; what is empty is not known here."""
    steps: list[tuple[str, StepRow]] = field(default_factory=list)
    """Session and step, in order; a step's `loop` is its identity, 0 where it has none. One whose span is known replaces it."""
    found: list[tuple[Detection, bool]] = field(default_factory=list)
    """Detections, and whether each asked for a block that nobody enforces."""
    decisions: list[Decision] = field(default_factory=list)
    """What was decided, in order."""
    minutes: dict[Minute, Sums] = field(default_factory=dict)
    """What came together."""
    taken: dict[str, str] = field(default_factory=dict)
    """Trace, counted as a session so far → session to which its steps go."""
    gone: list[str] = field(default_factory=list)
    """Sessions that are no more."""

    def __bool__(self) -> bool:
        return bool(self.rows or self.steps or self.found or self.decisions or self.minutes or self.taken or self.gone)


def numbered(steps: Sequence[StepRow]) -> list[StepRow]:
    """Steps with small numbers in place of identities: equal ones have equal numbers, one that is like no other has 0."""
    times: dict[int, int] = {}
    for step in steps:
        times[step.loop] = times.get(step.loop, 0) + 1
    names: dict[int, int] = {0: 0}
    for step in steps:
        if times[step.loop] > 1:
            names.setdefault(step.loop, len(names))
    return [step.model_copy(update={"loop": names.get(step.loop, 0)}) for step in steps]


def valid(text: str) -> str:
    """A name as valid text: ids may hold halves of surrogate pairs."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def series_of(found: Iterable[tuple[int, Sums]], minutes: int, now_ns: int) -> list[MinuteRow]:
    """One row per minute, the running one last, whatever is missing; what is given of one minute adds up."""
    last = now_ns // MINUTE_NS
    total = {minute: Sums() for minute in range(last - minutes + 1, last + 1)}
    for minute, sums in found:
        if minute in total:
            total[minute].add(sums)
    return [MinuteRow.made(minute=minute, **asdict(sums)) for minute, sums in total.items()]

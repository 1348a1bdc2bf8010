"""What the rules on pace and spending remember of a session, and how minutes are compared with those before them."""

from __future__ import annotations

from typing import Final

from spanfuse_schemas import Call
from spanfuse_schemas.detection import Mode

MINUTE_NS: Final = 60 * 10**9
MIN_BASELINE: Final = 3
"""Closed minutes without which there is no baseline."""
MAX_BASELINE: Final = 10
"""Closed minutes that make the baseline: it follows a change of pace within some minutes, and no shorter one."""


class Velocity:
    """Model calls by minute of event time, counted twice: calls that overlap as one, whoever makes them; and siblings of one
    parent that overlap as one."""

    __slots__ = ("baseline", "before", "calls", "calls_before", "minute", "now", "parents", "round_ns", "usual")

    def __init__(self) -> None:
        self.minute = 0
        self.now = self.before = 0
        """Rounds in this minute and in the one before; a round is what overlaps its first call to end."""
        self.baseline: list[int] = []
        """Rounds in the last closed minutes that had any."""
        self.usual = 0.0
        """Median of the baseline; 0 until there is one."""
        self.round_ns = 0
        """End of the first call of the present round."""
        self.calls = self.calls_before = 0
        """Calls in this minute and in the one before."""
        self.parents: dict[str, int] = {}
        """Span id of each of the last parents → end of the first call of its present group."""


class Minutes:
    """Money by minute of event time, nano-dollars."""

    __slots__ = ("baseline", "before", "minute", "now", "usual")

    def __init__(self) -> None:
        self.minute = 0
        self.now = self.before = 0
        self.baseline: list[int] = []
        self.usual = 0.0


class Failures:
    """The last provider failure's parent, and the end of the first failure among the siblings that were in flight with it."""

    __slots__ = ("end_ns", "parent")

    def __init__(self) -> None:
        self.parent = self.end_ns = 0


class Burn:
    """A stretch of calls that send the same large context and bring little."""

    __slots__ = ("canon", "count", "end_ns", "input", "output", "since_ns", "span_id", "spent", "total")

    def __init__(self) -> None:
        self.count = 0
        self.input = self.output = 0
        """Tokens of the last call."""
        self.total = 0
        """Input tokens of all."""
        self.canon = 0
        """Canonical hash of the last new input; 0: unknown."""
        self.end_ns = 0
        self.span_id = self.since_ns = self.spent = 0
        """Where it began: span, time, and money the session had spent before."""


class Idle:
    """A stretch of wakings for nothing."""

    __slots__ = ("count", "end_ns", "since_ns", "span_id", "spent")

    def __init__(self) -> None:
        self.count = 0
        self.end_ns = 0
        self.span_id = self.since_ns = self.spent = 0


class Creep:
    """What a call cost in the beginning, and how many of late cost far more; nano-dollars."""

    __slots__ = ("above", "early", "median", "since_ns", "span_id", "spent")

    def __init__(self) -> None:
        self.early: list[int] = []
        """Costs of the first calls, until their median is known."""
        self.median = 0
        self.above = 0
        """Calls above the limit, less those since that were not."""
        self.span_id = self.since_ns = self.spent = 0


class ContextTiers:
    """The tier of the context window that was last told, by agent."""

    __slots__ = ("told",)

    def __init__(self, told: dict[str, int] | None = None) -> None:
        self.told = told or {}


def roll(pace: Velocity | Minutes, minute: int, factor: float, floor: float) -> int:
    """Go on to a minute: close the one that was running into the baseline.

    A minute that reached its limit, `factor` times the baseline and no less than `floor`, adds the baseline's own median, so
    that no burst becomes normal by going on.

    Returns:
        Minutes gone by; 0 in the same minute, negative for one before it.
    """
    gone = minute - pace.minute
    if gone > 0:
        if pace.now:
            share = pace.now
            if pace.usual and share >= floor and share >= factor * pace.usual:
                share = int(pace.usual)
            pace.baseline = [*pace.baseline[1 - MAX_BASELINE :], share]
            pace.usual = float(median(pace.baseline)) if len(pace.baseline) >= MIN_BASELINE else 0.0
        pace.before = pace.now if gone == 1 else 0
        pace.minute, pace.now = minute, 0
    return gone


def rest(at_ns: int) -> float:
    """Share of the minute before that still lies in the sliding minute which ends now."""
    return 1 - at_ns % MINUTE_NS / MINUTE_NS


def median(values: list[int]) -> float:
    """The median; of an even number of values the mean of the middle two."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def works(call: Call) -> bool:
    """Whether a model call asks for tools, or answers what they brought."""
    return bool(call.called or call.answered) or call.finish_reason == "tool_calls"


def due(mode: Mode, count: int, threshold: int) -> bool:
    """Whether a count, 1 or more, is told: at its threshold and each time it has doubled; what acts on the agent, always."""
    if mode == "nudge" or mode == "block":
        return count >= threshold
    times, left = divmod(count, threshold)
    return not left and not times & (times - 1)

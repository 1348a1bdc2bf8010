"""The step model: an action and the observation that came back, told apart from an agent that starts over.

A model call carries both: what the last assistant message of its input did (`Call.answers`), and the input that is new
since then (`Call.input`). So a step is known from one record, whatever was lost, reordered or interleaved before it. A tool
span is a step of its own, known before the next model call; when that call then restates it, it counts once.

A call without a history is a prompt: its step is the prompt itself, since nothing came before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice, pairwise, takewhile
from typing import Any, Final, Literal, NamedTuple

RING: Final = 40
"""Steps remembered: the window of the repeat rules, which holds three rounds of the longest period."""
MAX_PERIOD: Final = 12
"""Longest cycle."""
TELLING_CHARS: Final = 128
"""An observation that is the same, and of at least this length, characters, says that nothing new was found. Shorter ones
("Email sent.") are the same for different deeds."""


Kind = Literal["prompt", "turn", "tool"]


class Step(NamedTuple):
    """One step. Hashes are 64-bit integers; 0 stands for an unknown identity."""

    kind: Kind
    """`prompt`: the agent starts over; `turn`: seen from a model call; `tool`: seen from a tool span."""
    exact: int
    """Hash of (action, observation), raw."""
    canon: int
    """Hash of (action, observation), canonical."""
    action_exact: int
    """Raw hash of the action."""
    action: int
    """Canonical hash of the action; of the prompt for a prompt."""
    observation: int
    """Canonical hash of the observation: the new input by which a Guard recognises the next call of a loop."""
    tool: str
    """Tool of the action, where it is a single one."""
    error: bool
    """The tool failed."""
    size: int
    """Length of the observation, characters."""
    wording: bytes
    """Words in the arguments of a single tool; empty: unknown."""
    fields: bytes
    """Hashes of the fields of its arguments; empty: unknown."""
    meaning: int
    """Hash of what its words mean; 0: unknown."""
    echo: bool
    """The observation only says what the action did."""
    novel: bool
    """No step among those remembered was equal to it when it came."""
    agent: int
    """Hash of the agent's name: agents that share a session do not repeat one another."""
    restated: bool
    """The observation lies inside a restatement of the task, and cannot be told from it."""
    span_id: int
    """Span that told of it."""
    parent: int
    """Its parent."""
    start_ns: int
    """Start of that span; of siblings together, the latest."""
    end_ns: int
    """End of that span; of siblings together, the latest."""
    spent: int
    """Money the session had spent before it, nano-dollars."""

    @property
    def begun(self) -> tuple[int, int, int]:
        """Where a finding begins that has this as its first step: span, time (ns), and money spent before (nano-dollars)."""
        return self.span_id, self.end_ns, self.spent

    @property
    def telling(self) -> bool:
        """Whether the observation, seen again after another action, says that this brought nothing new."""
        return self.error or self.size >= TELLING_CHARS


def matching(steps: Sequence[Step], is_equal: Callable[[Step], bool], *, since_progress: bool) -> list[Step]:
    """The steps that are equal to one in question.

    Args:
        since_progress: only those since another one brought something new: "ok" again after each edit is no loop.
    """
    if not since_progress:
        return [step for step in steps if is_equal(step)]
    found: list[Step] = []
    for step in reversed(steps):
        if is_equal(step):
            found.append(step)
        elif step.novel:
            break
    return found[::-1]


def close_together(steps: Sequence[Step], interval_s: float) -> list[Step]:
    """The steps at the end of which each came sooner after the one before than an interval, seconds; 0: all."""
    if not interval_s:
        return list(steps)
    kept = list(steps[-1:])
    for step in reversed(steps[:-1]):
        if kept[-1].end_ns - step.end_ns >= interval_s * 1e9:
            break
        kept.append(step)
    return kept[::-1]


def unhurried(steps: Sequence[Step], wait_s: float) -> bool:
    """Whether each step came at least that long, seconds, after the one before: the agent waits for something."""
    return len(steps) > 1 and all(b.end_ns - a.end_ns >= wait_s * 1e9 for a, b in pairwise(steps))


_GOLDEN: Final = 0x9E3779B97F4A7C15
MASK: Final = 2**64 - 1
"""Keeps sums of hashes at 64 bits."""


def mix(a: int, b: int) -> int:
    """One 64-bit hash of two, order included; 0 where one is unknown. They are uniform already, so a multiplicative step
    (Knuth, TAOCP 6.4) is as good as another hash."""
    return (a * _GOLDEN + b) & MASK or 1 if a and b else 0


def _extend(symbols: list[int], runs: list[int]) -> None:
    """Bring the run lengths up to date with the newest symbol."""
    newest, before = symbols[-1], symbols[-2 : -2 - MAX_PERIOD : -1]
    longer = [run + 1 if symbol == newest else 0 for symbol, run in zip(before, runs[1:], strict=False)]
    runs[1 : 1 + len(longer)] = longer


class Steps:
    """The last steps, and for each period how long the sequence has been repeating itself."""

    __slots__ = (
        "action_runs",
        "actions",
        "canons",
        "observations",
        "observed_again",
        "repeats",
        "ring",
        "runs",
        "unknown",
    )

    def __init__(self) -> None:
        # Lists, since a sequence of so few is cut and looked through faster so than as a deque.
        self.ring: list[Step] = []
        self.canons: list[int] = []
        """Canonical symbols; an unknown identity gets a symbol of its own, so that it equals nothing."""
        self.actions: list[int] = []
        self.observations: list[int] = []
        self.runs = [0] * (MAX_PERIOD + 1)
        """runs[p]: how many of the last steps in a row equal the step p before them."""
        self.action_runs = [0] * (MAX_PERIOD + 1)
        """The same on actions alone."""
        self.repeats = False
        """Whether the newest step's action is among those before it; if not, no rule on repetition has anything to see."""
        self.observed_again = False
        """Whether the newest step's observation is among those before it."""
        self.unknown = 0

    def append(self, step: Step) -> None:
        """Take the next step; fixed work, and little where the action is a new one."""
        canons, actions, observations, observation = self.canons, self.actions, self.observations, step.observation
        canon = step.canon or self._unknown()
        action = step.action or self._unknown()
        self.repeats = action in actions
        self.observed_again = observation != 0 and observation in observations
        self.ring.append(step)
        canons.append(canon)
        actions.append(action)
        observations.append(observation)
        if len(canons) > RING:
            del self.ring[0], canons[0], actions[0], observations[0]
        if self.repeats:
            _extend(canons, self.runs)
            _extend(actions, self.action_runs)
        elif any(self.action_runs):
            self.break_runs()

    @property
    def last(self) -> Step | None:
        """The newest step."""
        return self.ring[-1] if self.ring else None

    def drop_last(self) -> None:
        """Take the newest step back, since it turns out to be part of a larger one."""
        self.ring.pop()
        self.observations.pop()
        for symbols, runs in ((self.canons, self.runs), (self.actions, self.action_runs)):
            symbols.pop()
            for period in range(1, MAX_PERIOD + 1):
                pairs = zip(reversed(symbols), reversed(symbols[:-period]), strict=False)
                runs[period] = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    def _unknown(self) -> int:
        """A symbol that equals none."""
        self.unknown += 1
        return -self.unknown

    def break_runs(self) -> None:
        """Let what comes next begin new runs."""
        self.runs, self.action_runs = [0] * (MAX_PERIOD + 1), [0] * (MAX_PERIOD + 1)

    def count(self, symbol: int) -> int:
        """Steps with that canonical symbol among those remembered."""
        return self.canons.count(symbol)

    def recent(self, agent: int, count: int) -> list[Step]:
        """The last steps of an agent, by its hash."""
        newest = islice((step for step in reversed(self.ring) if step.agent == agent), count)
        return list(newest)[::-1]

    def run(self, *, errors: bool = False, min_interval_s: float = 0) -> list[Step]:
        """The last steps in a row that have the action of the last one.

        Args:
            errors: each has to be a failure of the tool.
            min_interval_s: a step that came this long after the one before, seconds, begins the row; 0: none does.
        """
        row: list[Step] = []
        for step in reversed(self.ring):
            if row and (step.action != row[0].action or not step.action):
                break
            if errors and not step.error:
                break
            row.append(step)
        return close_together(row[::-1], min_interval_s)

    @staticmethod
    def periods(runs: list[int], longest: int = MAX_PERIOD) -> range:
        """Periods in which there can be a cycle: a stretch of one and the same step is none."""
        return range(max(2, runs[1] + 2), longest + 1)

    def distinct(self, period: int) -> bool:
        """Whether the last `period` steps are more than one step repeated."""
        canons = self.canons
        return canons[-period:].count(canons[-1]) < period

    def failing(self, period: int) -> bool:
        """Whether a tool failed in one of the last `period` steps, and these are to the letter those before them."""
        ring = self.ring
        if len(ring) < 2 * period - 1:
            return False
        return any(step.error for step in ring[-period:]) and all(
            step.exact == before.exact
            for step, before in zip(ring[1 - period :], ring[1 - 2 * period : -period], strict=True)
        )

    def cycling(self) -> bool:
        """Whether a cycle is growing: at least two full rounds of some period."""
        runs = self.runs
        return any(runs[p] >= p and self.distinct(p) for p in self.periods(runs))

    def forget(self, agent: int) -> None:
        """Forget the steps of an agent, by its hash."""
        kept = [step for step in self.ring if step.agent != agent]
        self.clear()
        for step in kept:
            self.append(step)

    def clear(self) -> None:
        """Forget all."""
        self.__init__()  # type: ignore[misc]

    def state(self) -> list[Any]:
        """All but the ring: the runs, and the number of unknown symbols; the symbols follow from these and the ring."""
        return [self.runs, self.action_runs, self.repeats, self.observed_again, self.unknown]

    @classmethod
    def of(cls, ring: Iterable[Step], state: list[Any]) -> Steps:
        """From its steps and its state."""
        steps = cls()
        steps.ring.extend(ring)
        steps.runs, steps.action_runs, steps.repeats, steps.observed_again, unknown = state
        steps.unknown = unknown - sum(not s.canon for s in steps.ring) - sum(not s.action for s in steps.ring)
        for step in steps.ring:
            steps.canons.append(step.canon or steps._unknown())
            steps.actions.append(step.action or steps._unknown())
            steps.observations.append(step.observation)
        return steps

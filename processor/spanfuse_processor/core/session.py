"""Everything that is remembered of one session: bounded, versioned, serialisable."""

from __future__ import annotations

from typing import Any, Final

from spanfuse_processor.core import packing, snapshots
from spanfuse_processor.core.accounts import Accounts
from spanfuse_processor.core.pace import Burn, ContextTiers, Creep, Failures, Idle, Minutes, Velocity
from spanfuse_processor.core.recent import Recent
from spanfuse_processor.core.seen import SeenSpans
from spanfuse_processor.core.steps import Steps
from spanfuse_processor.core.strayed import Strayed
from spanfuse_schemas import Decision

STATE_VERSION: Final = 4
MAX_LANES: Final = 8
MAX_TOOLS: Final = 32
MAX_OPEN_TOOLS: Final = 16
MAX_ERRORS: Final = 64
OTHER: Final = "*"


class PromptRun:
    """A lane's run of equal prompts: the same new input while the history does not grow."""

    __slots__ = (
        "canon", "count", "end_ns", "exact", "exact_count", "history", "hurried", "near", "novel", "novel_before", "since_ns",
        "size", "span_id", "spent", "system",
    )  # fmt: skip

    def __init__(self) -> None:
        self.exact = self.canon = self.near = self.size = 0
        """Of the last new input: hashes; of the first of the run: length, characters, so that small growth adds up."""
        self.history = 0
        """Messages before it."""
        self.system = ""
        """Hash of the system messages of the last one."""
        self.hurried = False
        """Whether one of them came so soon after the one before that the agent does not merely wait."""
        self.count = self.exact_count = 0
        """Prompts in the run; those at its end that are equal to the letter."""
        self.span_id = self.since_ns = self.spent = 0
        """Where the run began: span, time, and money the session had spent before."""
        self.end_ns = 0
        """End of the last prompt."""
        self.novel = 0
        """Observations of this lane so far that were new: evidence of progress, which ends a run."""
        self.novel_before = 0
        """`novel` when the last prompt was seen."""


class Roster:
    """Who is at work in the session: whose it is, and how its agents take turns."""

    __slots__ = ("bound", "first", "last", "model", "runs", "since_ns", "span_id", "spent", "turns")

    def __init__(self) -> None:
        self.first = ""
        """Agent that made the first model call: the session counts as one of that agent's."""
        self.last = 0
        """Agent that made the last one, as a CRC-32."""
        self.model = ""
        """Model that answered last: what tool spans tell of goes to its account."""
        self.bound = 0
        """Cost at which the session comes into another bucket of its agent's history, nano-dollars."""
        self.turns: list[int] = []
        """Agents of the last turns; empty while there is one agent only."""
        self.runs: list[int] = []
        """Turns in a row that went to the agent that had it 2, 3, 4, … turns before."""
        self.span_id = self.since_ns = self.spent = 0
        """Where these runs began: span, time, and money the session had spent before."""


class Refusals:
    """A row of one request that the provider refused as wrong."""

    __slots__ = ("canon", "count", "since_ns", "span_id", "spent")

    def __init__(self) -> None:
        self.canon = self.count = 0
        self.span_id = self.since_ns = self.spent = 0
        """Where it began: span, time, and money the session had spent before."""


class Pages:
    """A tool that is called with one number changed."""

    __slots__ = ("fields", "passes", "row", "since_ns", "span_id", "spent", "tool")

    def __init__(self) -> None:
        self.tool, self.fields = "", b""
        """Of the last call."""
        self.row = 0
        """Calls in a row whose number grew."""
        self.passes = 0
        """Times that it fell back after a row of some length."""
        self.span_id = self.since_ns = self.spent = 0


class Past:
    """What a session was before it was reset: for others it is still the same one."""

    __slots__ = ("calls", "cost_nano_usd", "first")

    def __init__(self) -> None:
        self.calls = self.cost_nano_usd = 0
        self.first = ""
        """Agent as one of whose it counts; empty: of none yet."""


class Way:
    """Where calls of a trace go, whose session came to be known only after they were counted."""

    __slots__ = ("known",)

    def __init__(self) -> None:
        self.known: list[list[Any]] = []
        """Session, and the stretch of time in which calls that belong to it began; the last is the newest."""

    def add(self, into: str, from_ns: int, to_ns: int, most: int) -> None:
        """Remember a session, or a longer stretch of one that is known."""
        for way in self.known:
            if way[0] == into:
                way[1], way[2] = min(way[1], from_ns), max(way[2], to_ns)
                return
        self.known = [*self.known, [into, from_ns, to_ns]][-most:]


RECORDS: Final[dict[str, type[Any]]] = {
    "roster": Roster,
    "refusals": Refusals,
    "pages": Pages,
    "velocity": Velocity,
    "velocity_cost": Minutes,
    "velocity_burn": Burn,
    "spend_idle": Idle,
    "spend_creep": Creep,
    "context": ContextTiers,
    "failures": Failures,
    "strayed": Strayed,
    "budgets": Accounts,
    "past": Past,
    "ways": Way,
}
"""What single rules remember, by the name of its slot in `SessionState`: a class of plain fields. It is none, and takes no
room, until its rule makes one."""


def _dump(record: Any) -> list[Any]:
    return [getattr(record, name) for name in record.__slots__]


def _load(record: Any, values: list[Any]) -> Any:
    for name, value in zip(record.__slots__, values, strict=True):
        setattr(record, name, value)
    return record


class SessionState:
    """What the rules remember of a session. Hashes are 64-bit integers, money is nano-dollars, times are nanoseconds."""

    __slots__ = (
        "awaited", "budgets", "calls",
        "context",
        "cooldown_s",
        "cost_nano_usd",
        "decision",
        "epoch",
        "errors",
        "failures",
        "fired",
        "first_ns",
        "key",
        "lanes",
        "last_ns",
        "open_tools",
        "pages",
        "past",
        "progress",
        "prompts",
        "recent",
        "refusals",
        "roster",
        "seen",
        "spend_creep",
        "spend_idle",
        "steps",
        "strayed",
        "tokens",
        "tool_actions",
        "tool_spans",
        "tools",
        "velocity",
        "velocity_burn",
        "velocity_cost",
        "ways",
    )  # fmt: skip

    def __init__(self, key: str) -> None:
        self.key = key
        self.calls = 0
        """Model calls counted."""
        self.tools = 0
        """Tool spans counted."""
        self.tokens = 0
        self.cost_nano_usd = 0
        self.first_ns = 0
        self.last_ns = 0
        """End of the newest call."""
        self.seen = SeenSpans()
        self.recent = Recent()
        """The last model calls, of which other spans may tell once more."""
        self.steps = Steps()
        """Actions and what they brought."""
        self.prompts = Steps()
        """Prompts with which an agent started over: a sequence of their own, as a framework may ask between any two steps."""
        self.lanes: dict[str, PromptRun] = {}
        """Per agent of the session, so that agents which take turns do not break one another's runs."""
        self.open_tools: list[tuple[str, str]] = []
        """Agent and tool of spans that were counted as steps and which the agent's next model call will restate."""
        self.tool_actions: dict[str, int] = {}
        """Tool calls issued by model calls, by tool."""
        self.tool_spans: dict[str, int] = {}
        """Tool executions seen as spans, by tool."""
        self.errors: list[int] = []
        """Ends of the last provider failures."""
        self.failures: Failures | None = None
        self.velocity: Velocity | None = None
        self.velocity_cost: Minutes | None = None
        self.velocity_burn: Burn | None = None
        self.spend_idle: Idle | None = None
        self.spend_creep: Creep | None = None
        self.context: ContextTiers | None = None
        self.roster: Roster | None = None
        self.strayed: Strayed | None = None
        self.fired: dict[str, int] = {}
        """When each rule and action last fired: a detection is told once, not once a call."""
        self.decision: Decision | None = None
        """What the breaker holds against the session; none when closed."""
        self.cooldown_s = 0.0
        """Present cooldown of the breaker, seconds; 0 before the first trip."""
        self.epoch = 0
        self.refusals: Refusals | None = None
        self.pages: Pages | None = None
        self.budgets: Accounts | None = None
        """What was spent of its budgets beside `budget.session`, and what was ordered about any of them."""
        self.past: Past | None = None
        """Before the last reset; none if there was none, or nothing before it."""
        self.ways: Way | None = None
        """For the state of a trace: where its calls belong; none: nobody has said."""
        self.progress = 0
        """The highest count of its own progress that the agent has reported."""
        self.awaited = ""
        """Agent whose next call a conditional block waits for."""

    def forget(self) -> None:
        """Start afresh, but for the spans already counted, where they belong, the epoch, when the session was last heard of,
        what was ordered about its budgets, and what its agent's baseline knows it by."""
        kept = self.seen, self.recent, self.ways, self.epoch, self.last_ns, self.budgets, self._ended()
        self.__init__(self.key)  # type: ignore[misc]
        self.seen, self.recent, self.ways, self.epoch, self.last_ns, self.budgets, self.past = kept
        if self.budgets is not None:
            self.budgets.forget()

    def _ended(self) -> Past | None:
        if not self.calls:
            return self.past
        past = self.past or Past()
        past.calls += self.calls
        past.cost_nano_usd += self.cost_nano_usd
        past.first = past.first or (self.roster.first if self.roster is not None else "")
        return past

    def snapshot(self) -> bytes:
        """The state as versioned msgpack."""
        return snapshots.pack(
            STATE_VERSION, self.key, self.calls, self.tools, self.tokens, self.cost_nano_usd, self.first_ns, self.last_ns,
            self.seen.snapshot(), self.recent.snapshot(), packing.snapshot(self.steps), packing.snapshot(self.prompts),
            {name: _dump(lane) for name, lane in self.lanes.items()},
            self.open_tools, self.tool_actions, self.tool_spans,
            self.errors, self.fired, self.decision.to_json() if self.decision else b"", self.cooldown_s, self.epoch,
            self.awaited, self.progress,
            {name: _dump(record) for name in RECORDS if (record := getattr(self, name)) is not None},
        )  # fmt: skip

    @classmethod
    def restore(cls, data: bytes) -> SessionState:
        """The inverse of `snapshot`.

        Raises:
            StateError: if the bytes are no snapshot, or one of another version.
        """
        return snapshots.unpack(data, "session", STATE_VERSION, cls._restored)

    @classmethod
    def _restored(cls, key: str, fields: list[Any]) -> SessionState:
        state = cls(key)
        (
            state.calls, state.tools, state.tokens, state.cost_nano_usd, state.first_ns, state.last_ns,
            seen, recent, steps, prompts, lanes, state.open_tools, state.tool_actions, state.tool_spans, state.errors,
            state.fired, decision, state.cooldown_s, state.epoch, state.awaited, state.progress, records,
        ) = fields  # fmt: skip
        state.seen = SeenSpans.restore(seen)
        state.recent = Recent.restore(recent)
        state.steps = packing.restore(steps)
        state.prompts = packing.restore(prompts)
        state.lanes = {name: _load(PromptRun(), values) for name, values in lanes.items()}
        for name, values in records.items():
            setattr(state, name, _load(RECORDS[name](), values))
        state.decision = Decision.from_json(decision) if decision else None
        return state

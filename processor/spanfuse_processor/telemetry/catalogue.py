"""Everything that is measured: one table of instruments, and one of the attributes by which they are told apart.

Names are those of OpenTelemetry. What Prometheus calls an instrument follows by the standard translation: dots become
underscores, a unit and, for counters, `_total` are appended. Annotations in braces, such as `{call}`, are no units to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from spanfuse_processor.telemetry.counters import COUNTERS, FAMILIES

Kind = Literal["counter", "histogram", "gauge"]
HostKind = Literal["embedded", "worker", "api", "proxy"]
"""`spanfuse up`, `spanfuse worker`, `spanfuse api`, `spanfuse proxy`."""

_UNITS: Final[Mapping[str, str]] = {"s": "seconds", "By": "bytes"}
"""Unit → how Prometheus writes it; those that it does not write are missing."""
PREFIX: Final = "spanfuse."

ATTRIBUTES: Final[Mapping[str, str]] = {
    "action": "what is asked for: `shadow` (decided, recorded, not carried out), `warn`, `nudge`, `block`, `allow`",
    "agent": "name of the agent",
    "budget": "name of the budget, such as `team/daily`",
    "class": "`input`, `cache_read`, `cache_write`, `output`, `reasoning`; apart from each other, so that their sum is all",
    "host": "`embedded`, `worker`, `api`, `proxy`",
    "id": "name of the agent or team that has the budget; `*` for all together",
    "kind": "which of a few that the text names",
    "method": "method of HTTP",
    "mode": "`observe`, `enforce`",
    "model": "name of the model, as it was asked for or answered",
    "outcome": "what became of it",
    "partition": "number of the partition",
    "provider": "`openai`, `anthropic`",
    "reason": "why",
    "receiver": "name of the receiver of alerts, as it is configured",
    "route": "path of the API as its document writes it, with the names of its parameters",
    "rule": "name of the rule",
    "scope": "`session`, `trace`, `agent`, `user`, `team`, `model`, `global`: the kind, never the name",
    "severity": "`info`, `warning`, `critical`",
    "signal": "`metrics`, `traces`",
    "source": "where the cost comes from: `reported`, `computed`, `fallback`, `unknown`",
    "stage": "which part of the way",
    "state": "state of the breaker: `closed`, `open`, `half_open`",
    "status": "class of the status of HTTP: `2xx`, `3xx`, `4xx`, `5xx`",
    "team": "name of the team",
    "topic": "topic of Kafka",
    "version": "version of spanfuse",
}
"""Attribute → what its values are."""

OPEN: Final = frozenset({"agent", "budget", "id", "model", "receiver", "team"})
"""Attributes whose values come from outside: cut, escaped, and `other` beyond `MAX_SETS`. All others have few values by
themselves."""
FORBIDDEN: Final = frozenset({"session", "user", "trace", "trace_id", "span_id", "session_id", "user_id"})
"""What no metric is ever told apart by: there is no end to them."""
MAX_SETS: Final = 200
"""Sets of attributes that one instrument tells apart in the life of a process; what comes later is added up under `other`."""

DELAYS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0)
"""Bounds of delays from the end of a call on, seconds: a span is exported up to 5 s after its end, and an outage of Kafka
lasts minutes."""
DURATIONS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Bounds of pieces of work, seconds."""
SIZES: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0)
"""Bounds of batches, calls."""


@dataclass(frozen=True, slots=True)
class Instrument:
    """One thing that is measured."""

    name: str
    """Its name, with dots."""
    kind: Kind
    """What it is."""
    unit: str
    """Unit, as UCUM writes it."""
    about: str
    """What is measured, in one sentence."""
    attributes: tuple[str, ...] = ()
    """What its series are told apart by, from `ATTRIBUTES`."""
    hosts: tuple[HostKind, ...] = ("embedded", "worker")
    """Who measures it."""
    bounds: tuple[float, ...] = ()
    """Of a histogram: upper bounds of its buckets."""
    values: tuple[str, ...] = ()
    """Of a counter with one attribute: values that are told from the start, as 0: a rate does not see a series that begins."""

    @property
    def prometheus(self) -> str:
        """What Prometheus calls it; of a histogram without `_bucket`, `_sum` and `_count`."""
        name, unit = self.name.replace(".", "_"), _UNITS.get(self.unit, "")
        if unit and not name.endswith(f"_{unit}"):
            name = f"{name}_{unit}"
        return f"{name}_total" if self.kind == "counter" else name


def _counter(
    name: str,
    unit: str,
    about: str,
    *attributes: str,
    hosts: tuple[HostKind, ...] = ("embedded", "worker"),
    values: tuple[str, ...] = (),
) -> Instrument:
    return Instrument(PREFIX + name, "counter", unit, about, attributes, hosts, values=values)


def _gauge(
    name: str, unit: str, about: str, *attributes: str, hosts: tuple[HostKind, ...] = ("embedded", "worker")
) -> Instrument:
    return Instrument(PREFIX + name, "gauge", unit, about, attributes, hosts)


_LOOKING: Final[tuple[HostKind, ...]] = ("embedded", "api")
"""Who has an API."""
_ALL: Final[tuple[HostKind, ...]] = ("embedded", "worker", "api", "proxy")

CALLS: Final = _counter(
    "calls", "{call}", "calls counted: model calls and tool executions, by `kind` (`llm`, `tool`)", "kind", "agent", "team",
    "model",
)  # fmt: skip
TOKENS: Final = _counter("tokens", "{token}", "tokens of the model calls counted", "class", "agent", "model")
COST: Final = _counter("cost.usd", "{USD}", "cost of the model calls counted, USD", "agent", "team", "model", "source")
DETECTIONS: Final = _counter("detections", "{detection}", "detections, by what they ask for", "rule", "action", "agent")
DECISIONS: Final = _counter("decisions", "{decision}", "changes of breakers", "rule", "state", "action", "scope")
DEAD_LETTERS: Final = _counter(
    "dead_letters", "{message}", "requests or messages that were put aside; they are kept for a while. `undecodable`: no OTLP; "
    "`unreadable`: OTLP that met an error nobody foresaw; `unapplicable`: calls that did; `foreign`: a message of our own "
    "topics that nobody of ours wrote", "reason", values=("undecodable", "unreadable", "unapplicable", "foreign"),
)  # fmt: skip
UNPRICED: Final = _counter(
    "unpriced_calls",
    "{call}",
    "calls of models without a known price, which cost the fallback price; with its provider, as `pricing.models` takes it",
    "model",
)
ALERTS: Final = _counter("alerts", "{alert}", "alerts that began to fire", "rule", "severity", hosts=_LOOKING)
DELIVERIES: Final = _counter(
    "alert_deliveries", "{message}", "messages about alerts: `delivered`, `refused` for good, `given_up` after tries, "
    "`dropped` for want of room; and tries that were repeated (`retries`)", "receiver", "outcome", hosts=_LOOKING,
)  # fmt: skip
TOLD: Final = _counter(
    "exported_detections", "{detection}", "detections for `exporters.otlp`: `sent`, `failed`, `dropped` for want of room",
    "outcome", hosts=_LOOKING, values=("sent", "failed", "dropped"),
)  # fmt: skip
PROXY_REQUESTS: Final = _counter(
    "proxy.requests", "{request}", "what became of requests to the proxy: `requests` that were let in, `blocked` by the Guard, "
    "`refused_4xx` and `refused_5xx` by the proxy itself, `provider_errors` (no answer), `clients_gone`", "kind",
    hosts=("proxy",),
)  # fmt: skip
EXPORTS: Final = _counter(
    "telemetry.exports", "{export}", "exports of this telemetry itself over OTLP: `sent`, `failed`", "signal", "outcome",
    hosts=_ALL,
)  # fmt: skip
LOST_ROWS: Final = _counter(
    "readmodel.dropped", "{item}", "what people are not shown, since Redis was away for long (`messages`, `rows`) or "
    "refused it (`writes`)", "kind", hosts=("worker",), values=("messages", "rows", "writes"),
)  # fmt: skip

DELAY: Final = Instrument(
    PREFIX + "end_to_end_delay", "histogram", "s",
    "from the end of a call to when it was counted (`counted`), and to when the decision that it led to was published "
    "(`published`)", ("stage",), bounds=DELAYS,
)  # fmt: skip
BATCH: Final = Instrument(PREFIX + "batch.calls", "histogram", "{call}", "calls applied together", bounds=SIZES)
STEP: Final = Instrument(
    PREFIX + "step.duration", "histogram", "s",
    "work for one batch: to read a request (`ingest`), to apply its calls (`detect`, in `spanfuse up` with the storage), to "
    "add up charges (`combine`)", ("stage",), bounds=DURATIONS,
)  # fmt: skip
API_TIME: Final = Instrument(
    PREFIX + "api.request.duration", "histogram", "s", "requests to the API that are let in; of a stream, until it begins",
    ("route", "method", "status"), _LOOKING, DURATIONS,
)  # fmt: skip
PROXY_TIME: Final = Instrument(
    PREFIX + "proxy.request.duration", "histogram", "s", "requests to the proxy, until the answer begins",
    ("provider", "status"), ("proxy",), DELAYS,
)  # fmt: skip

LAG: Final = _gauge(
    "lag.messages", "{message}", "messages of its partitions that a worker has not committed yet", "topic", "partition",
    hosts=("worker",),
)  # fmt: skip
IDLE: Final = _gauge(
    "partition.idle", "s", "time since the last progress of a partition on which messages wait; 0 while none wait", "topic",
    "partition", hosts=("worker",),
)  # fmt: skip
FLEET_LAG: Final = _gauge(
    "fleet.lag.messages", "{message}", "messages that no worker has committed yet, also of partitions that no worker has",
    "topic", hosts=("api",),
)  # fmt: skip
WORKERS: Final = _gauge("workers", "{worker}", "workers that are ready", hosts=("api",))
STATE_ENTRIES: Final = _gauge(
    "state.entries", "{entry}", "states that are kept: `session`, `agent`, `trace`, `user`, `team`, `model`, `global`; and of "
    "these, in memory: `live_sessions`, `live_scopes`", "kind",
)  # fmt: skip
STATE_BYTES: Final = _gauge(
    "state.bytes", "By", "size of what is kept: of a worker the snapshots of its `sessions` and `scopes`, of `spanfuse up` its "
    "`storage`", "kind",
)  # fmt: skip
OPEN_BREAKERS: Final = _gauge("open_breakers", "{breaker}", "breakers that are open", "scope", "action", hosts=_LOOKING)
HALF_OPEN: Final = _gauge(
    "half_open_breakers", "{breaker}", "breakers whose cooldown is over", "scope", "action", hosts=_LOOKING
)
COVERAGE: Final = _gauge(
    "coverage.ratio", "1", "of the calls that Guards let through, the share whose spans have come; missing where Guards have "
    "told of none",
)  # fmt: skip
BUDGET_USED: Final = _gauge(
    "budget.used.usd", "{USD}", "spent of a budget of an agent, a team or all together, in the period that runs, USD", "scope",
    "id", "budget",
)  # fmt: skip
BUDGET_LIMIT: Final = _gauge("budget.limit.usd", "{USD}", "its limit, USD", "scope", "id", "budget")
BUDGET_SHARE: Final = _gauge(
    "budget.used.ratio",
    "1",
    "the share of its limit that is used, also of budgets in tokens or calls",
    "scope",
    "id",
    "budget",
)
BUDGET_PERIOD: Final = _gauge(
    "budget.period", "s", "length of the period that runs; missing of a budget without an end", "scope", "id", "budget"
)
LEDGER_DIFFERENCE: Final = _gauge(
    "ledger.difference.usd", "{USD}", "what the ledger of strict budgets and the spans differ in, without sign, USD; missing "
    "without a ledger",
)  # fmt: skip
LEDGER_REACHABLE: Final = _gauge("ledger.reachable", "1", "whether the ledger answers; missing without one")
WAITING_ROWS: Final = _gauge(
    "readmodel.waiting", "{item}", "messages and names that Redis has not been told yet", hosts=("worker",)
)
FIRING: Final = _gauge("alerts.firing", "{alert}", "alerts that fire", hosts=_LOOKING)
STREAMS: Final = _gauge("streams", "{stream}", "clients that listen to events", hosts=_LOOKING)
SESSIONS: Final = _gauge("sessions", "{session}", "sessions that are known", hosts=_LOOKING)
POLICY_EPOCH: Final = _gauge("policy_epoch", "1", "epoch of the policy in force", hosts=("embedded", "worker", "api"))
PROXY_UNDER_WAY: Final = _gauge("proxy.under_way", "{request}", "requests under way", hosts=("proxy",))
READY: Final = _gauge("ready", "1", "whether the host is ready", hosts=_ALL)
LIVE: Final = _gauge("live", "1", "whether the host makes progress", hosts=_ALL)
UPTIME: Final = _gauge("uptime", "s", "time since the start", hosts=_ALL)
INFO: Final = _gauge("info", "1", "always 1; what runs", "version", "host", "mode", hosts=_ALL)

GUARDS: Final = _counter(
    "guards", "{item}", FAMILIES["guards"], "kind", values=(
        "calls", "blocked", "would_block", "nudged", "probes", "denied", "errors", "unsigned", "spans_dropped",
        "reports", "reports_again", "reports_lost",
    ),
)  # fmt: skip
INGEST: Final = _counter("ingest", "{item}", FAMILIES["ingest"], "kind")
_OWN: Final = frozenset({"calls", "decisions", "dead_letters"})
"""Counters that have an instrument with attributes above."""
COUNTED: Final[Mapping[str, Instrument]] = {
    name: _counter(name, "1", about) for name, about in COUNTERS.items() if name not in _OWN
}
"""Simple counters, by their name among `COUNTERS`."""

CATALOGUE: Final[tuple[Instrument, ...]] = (
    CALLS, TOKENS, COST, DETECTIONS, DECISIONS, DEAD_LETTERS, UNPRICED, DELAY, BATCH, STEP,
    LAG, IDLE, FLEET_LAG, WORKERS, STATE_ENTRIES, STATE_BYTES, OPEN_BREAKERS, HALF_OPEN, COVERAGE,
    BUDGET_USED, BUDGET_LIMIT, BUDGET_SHARE, BUDGET_PERIOD, LEDGER_DIFFERENCE, LEDGER_REACHABLE,
    ALERTS, FIRING, DELIVERIES, TOLD, API_TIME, STREAMS, SESSIONS, PROXY_REQUESTS, PROXY_TIME, PROXY_UNDER_WAY,
    LOST_ROWS, WAITING_ROWS, EXPORTS, READY, LIVE, UPTIME, POLICY_EPOCH, INFO, GUARDS, INGEST, *COUNTED.values(),
)  # fmt: skip
"""All of it, in the order in which it is documented."""
BY_NAME: Final[Mapping[str, Instrument]] = {instrument.name: instrument for instrument in CATALOGUE}

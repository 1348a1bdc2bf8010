"""The checks: each makes one finding of a sample. To add one: write it, put it into `CHECKS`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from spanfuse_processor.hosts.doctor.finding import Finding, Severity
from spanfuse_processor.hosts.doctor.sample import Sample, Shared
from spanfuse_schemas.wording import key_id

FEW: Final = 0.05
"""Up to this share, what is the matter with some is a warning where it would be a problem for many."""
MIN_CALLS: Final = 5
"""Of fewer model calls nothing is concluded from how they are spread."""


def _severity(count: int, of: int, *, many: Severity = "problem", from_share: float = 0.5) -> Severity:
    """Of something that should not be at all."""
    return "ok" if not count else many if count >= from_share * of else "warn"


def requests(s: Sample) -> Finding:
    """Requests that are none."""
    number, good = s.counts["undecodable"], s.counts["requests"]
    return Finding(
        "requests",
        _severity(number, number + good),
        number,
        number + good,
        f"{good} requests were read, {number} could not be decoded",
        "Workers put those to the dead letters." if number else "",
        "Send ExportTraceServiceRequest, protobuf or JSON: encoding otlp_proto or otlp_json of the Collector."
        if number
        else "",
    )


def calls(s: Sample) -> Finding:
    """Whether there is anything to detect on."""
    found, spans = s.counts["llm"], s.counts["spans"]
    what = f"{found} model calls and {s.counts['tools']} tool executions among {spans} spans"
    if found:
        return Finding("calls", "ok", found, spans, what)
    do = "Look at single spans with `spanfuse inspect`; instrument the model client, or send its spans here too."
    return Finding(
        "calls", "problem", 0, spans, what, "Without model calls nothing is detected and nothing is spent.", do
    )


def dialects(s: Sample) -> Finding:
    """What the calls speak."""
    told = ", ".join(f"{name} ({number})" for name, number in s.dialects.most_common())
    return Finding("dialects", "ok", len(s.dialects), s.counts["calls"], f"calls speak {told or 'nothing'}")


def left(s: Sample) -> Finding:
    """Spans that became nothing, and why."""
    number = sum(s.reasons.values())
    told = "; ".join(f"{n} × {why}" for why, n in s.reasons.most_common())
    return Finding(
        "left out", "ok", number, s.counts["spans"], f"{number} spans are no call" + (f": {told}" if told else "")
    )


def unreadable(s: Sample) -> Finding:
    """Spans that nobody could read."""
    number = s.counts["invalid"] + s.counts["failed"]
    return Finding(
        "unreadable",
        _severity(number, s.counts["spans"], from_share=FEW),
        number,
        s.counts["spans"],
        f"{number} spans have no valid ids, or cannot be read",
        "They count for nothing." if number else "",
        "Have the exporter looked at; report one of them if its ids are good." if number else "",
    )


def session(s: Sample) -> Finding:
    """Where sessions come from."""
    own, inherited, none = (s.counts[f"session_{source}"] for source in ("explicit", "inherited", "trace"))
    what = f"session id: {own} calls say their own, {inherited} inherit one, {none} have none but their trace"
    if not none:
        return Finding("session", "ok", none, s.counts["calls"], what)
    traces = [trace for key, trace in s.traces.values.items() if f"trace:{key}" in s.sessions.values and trace.calls]
    single = sum(trace.calls for trace in traces) <= 1.5 * len(traces)
    severity: Severity = "problem" if single and len(traces) >= MIN_CALLS else "warn"
    means = (
        "Nearly each of these calls is a session of its own, in which no loop can be seen."
        if severity == "problem"
        else "A trace is taken for a session: a loop over several traces is not seen."
    )
    do = "Set session.id or gen_ai.conversation.id on each span, or on the span around the run; `spanfuse.session(...)` does."
    return Finding("session", severity, none, s.counts["calls"], what, means, do)


def shared_session(s: Sample) -> Finding:
    """Sessions that two conversations share (R086)."""
    users, services = (_several(s.sessions.values.values(), get) for get in (_users, _services))
    number, of = max(users, services), len(s.sessions.values)
    what = f"of {of} sessions, {users} have several users and {services} several services"
    if not number:
        return Finding("shared session", "ok", 0, of, what)
    return Finding(
        "shared session",
        "problem" if users else "warn",
        number,
        of,
        what,
        "Two conversations under one id are judged as one: each may be stopped for what the other did.",
        "Make session ids unique: put the user or the service into them, or use UUIDs. Agents of several services that work "
        "on one task may share one.",
    )


def agent(s: Sample) -> Finding:
    """Whose agent it is."""
    number, of = s.counts["no_agent"], s.counts["calls"]
    return Finding(
        "agent",
        _severity(number, of, many="warn"),
        number,
        of,
        f"{number} of {of} calls name no agent and no service",
        "Rules and settings for an agent do not see them." if number else "",
        "Set gen_ai.agent.name, or service.name of the resource." if number else "",
    )


def usage(s: Sample) -> Finding:
    """Tokens that were not reported."""
    number, of = s.counts["estimated"], s.counts["llm"]
    return Finding(
        "usage",
        _severity(number, of),
        number,
        of,
        f"{number} of {of} model calls report no usage",
        "Their tokens are estimated from the length of texts, or 0: budgets and context limits are as good as that."
        if number
        else "",
        "Streaming calls often need `stream_options={'include_usage': True}`, or a newer instrumentation."
        if number
        else "",
    )


def price(s: Sample) -> Finding:
    """Models whose price is not known."""
    number, of = s.counts["unpriced"], s.counts["llm"]
    told = ", ".join(name for name, _ in s.models.most_common(5))
    return Finding(
        "price",
        _severity(number, of, many="warn"),
        number,
        of,
        f"{number} of {of} model calls have no known price" + (f": {told}" if told else ""),
        "They are counted at the fallback price, or as unknown." if number else "",
        "Give prices under pricing.models." if number else "",
    )


def content(s: Sample) -> Finding:
    """Calls without content and without fingerprints."""
    number, of = s.counts["structure"], s.counts["calls"]
    stated = f", {s.counts['stated']} state fingerprints" if s.counts["stated"] else ""
    return Finding(
        "content",
        _severity(number, of, from_share=1),
        number,
        of,
        f"{number} of {of} calls have neither content nor fingerprints{stated}",
        "Only rules on structure (tokens, tools, failures, times) see them, and these warn." if number else "",
        "Turn content capture on, or have the agent's process state fingerprints: docs/client.md, Without content."
        if number
        else "",
    )


def truncated(s: Sample) -> Finding:
    """Content that was cut on its way (R087), and fingerprints that were."""
    cut, broken, of = s.counts["content_truncated"], s.counts["fingerprint_invalid"], s.counts["calls"]
    number = cut + broken
    return Finding(
        "truncated",
        _severity(number, of, many="warn"),
        number,
        of,
        f"the messages of {cut} model calls were cut, and {broken} stated fingerprints cannot be read",
        "A text that was cut equals no other: loops of such calls are not seen." if number else "",
        "Raise OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT and the limits of the Collector, or state fingerprints."
        if number
        else "",
    )


def fingerprint_key(s: Sample) -> Finding:
    """Fingerprints that are stated under other keys than those they are compared with."""
    several, of = _several(s.sessions.values.values(), lambda shared: shared.keys), len(s.sessions.values)
    other = s.counts["other_key"]
    what = f"{several} of {of} sessions have fingerprints under several keys"
    if other:
        what += f"; {other} calls have another key than service.fingerprint_key"
    return Finding(
        "fingerprint key",
        _severity(several + other, of, many="warn"),
        max(several, other),
        of,
        what,
        "What differs in words alone is not seen to be alike." if several + other else "",
        "Set SPANFUSE_FINGERPRINT_KEY in all processes, and service.fingerprint_key here, to the same secret."
        if several + other
        else "",
    )


def clock(s: Sample) -> Finding:
    """Clocks that differ from the broker's (R097)."""
    ahead, behind, of = s.counts["ahead"], s.counts["behind"], s.counts["timed"]
    number = ahead + behind
    if not of:
        return Finding("clock", "ok", 0, 0, "unknown: a recording does not say when spans were received")
    return Finding(
        "clock",
        _severity(number, of, from_share=FEW),
        number,
        of,
        f"{ahead} spans end more than 5 minutes after they were received, {behind} more than an hour before",
        "Windows of time (velocity, errors, budgets of a day) see them too early or too late." if number else "",
        "Set the clocks of their hosts by NTP. Spans that were held back for so long look alike." if number else "",
    )


def times(s: Sample) -> Finding:
    """Spans whose times cannot be."""
    number, of = s.counts["start_invalid"], s.counts["spans"]
    return Finding(
        "times",
        _severity(number, of, many="warn"),
        number,
        of,
        f"{number} calls start after their end, or more than a day before",
        "They count as of no duration." if number else "",
        "Have the instrumentation looked at." if number else "",
    )


def delivered_again(s: Sample) -> Finding:
    """Span ids that came more than once (R081)."""
    number, of = s.counts["delivered_again"], s.counts["spans"]
    return Finding(
        "delivered again",
        _severity(number, of, many="warn") if number > FEW * of else "ok",
        number,
        of,
        f"{number} spans came more than once, and count once",
        "Nothing is counted twice; they cost work." if number > FEW * of else "",
        "Look for two exporters or processors in one process." if number > FEW * of else "",
    )


def twins(s: Sample) -> Finding:
    """Spans that are equal but for their id (R082)."""
    doubled, of = s.counts["twins_counted"], s.counts["spans"]
    number = s.counts["twins"] + doubled
    return Finding(
        "twins",
        _severity(doubled, s.counts["llm"], from_share=FEW) if doubled else _severity(number, of, many="warn"),
        number,
        of,
        f"{number} model spans differ from another in their id alone; {doubled} of them count all the same",
        "Each call is reported twice. Where spans have no parent, two that are alike may be two calls, and both count."
        if number
        else "",
        "Look for an instrumentation or a callback that is installed twice." if number else "",
    )


def nested(s: Sample) -> Finding:
    """Model calls that two instrumentations tell of (R080)."""
    number, of = s.counts["nested"], s.counts["spans"]
    return Finding(
        "nested", "ok", number, of, f"{number} model spans tell of a call that another span tells of, and count once"
    )


def partitions(s: Sample) -> Finding:
    """Traces that are spread over partitions."""
    traces = list(s.traces.values.values())
    spread = [trace for trace in traces if len(trace.partitions) > 1]
    matters = sum(trace.inherits for trace in spread)
    sessions = _several(s.sessions.values.values(), lambda shared: shared.partitions)
    what = f"{len(spread)} of {len(traces)} traces and {sessions} sessions have spans on several partitions"
    if not any(trace.partitions for trace in traces):
        return Finding("partitions", "ok", 0, 0, "unknown: a recording has no partitions")
    if not spread:
        return Finding("partitions", "ok", 0, len(traces), what)
    return Finding(
        "partitions",
        "warn",
        len(spread),
        len(traces),
        what,
        f"Several workers see parts of one trace: a session id that stands on a parent alone ({matters} traces here) is not "
        "known to all, and a call that two spans tell of may count twice.",
        "Let the Collector's Kafka exporter use `partition_traces_by_id: true`.",
    )


def sampling(s: Sample) -> Finding:
    """Spans that a sampler let through (R099)."""
    number, of = s.counts["sampled"], s.counts["spans"]
    if not number:
        return Finding("sampling", "ok", 0, of, "nothing says that spans were sampled")
    return Finding(
        "sampling",
        "problem",
        number,
        of,
        f"{number} spans come from a sampler that keeps as little as {100 * s.least_sampled:.3g} %",
        "Sampled input: calls are missing that nobody can count, so budgets cannot be enforced from spans, and loops are seen "
        "late or not at all.",
        "Send spans here before they are sampled, or always sample spans of model calls and tools.",
    )


def logs(s: Sample) -> Finding:
    """Content that was logged for spans that are not there."""
    number, of = s.counts["logs_left"], s.counts["logs_left"] + s.counts["logs_joined"]
    return Finding(
        "logs",
        _severity(number, of, many="warn"),
        number,
        of,
        f"{of - number} log records with content belong to a span that is here, {number} do not",
        "Calls whose content comes apart from them are seen without it." if number else "",
        "Send spans and logs of the same processes here." if number else "",
    )


CHECKS: Final[tuple[Callable[[Sample], Finding], ...]] = (
    requests,
    calls,
    dialects,
    left,
    unreadable,
    session,
    shared_session,
    agent,
    usage,
    price,
    content,
    truncated,
    fingerprint_key,
    logs,
    clock,
    times,
    delivered_again,
    twins,
    nested,
    partitions,
    sampling,
)


_INGEST: Final = ("invalid", "failed", "content_truncated", "fingerprint_invalid", "start_invalid")
"""What the normaliser counts of spans that cannot be used as they are."""


def findings(sample: Sample, ingest: Mapping[str, int]) -> list[Finding]:
    """All findings, in the order of `CHECKS`.

    Args:
        ingest: what the normaliser counted.
    """
    sample.counts.update({name: ingest[name] for name in _INGEST})
    sample.counts["other_key"] = ingest["fingerprint_key"] if key_id() else 0
    return [check(sample) for check in CHECKS]


def _users(shared: Shared) -> set[str]:
    return shared.users


def _services(shared: Shared) -> set[str]:
    return shared.services


def _several(found: Iterable[Shared], get: Callable[[Shared], set[str] | set[int]]) -> int:
    return sum(len(get(shared)) > 1 for shared in found)

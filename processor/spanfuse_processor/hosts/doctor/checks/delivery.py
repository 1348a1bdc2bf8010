"""What reaches us, and how: requests, spans, their times, and what comes twice or not at all."""

from __future__ import annotations

from spanfuse_processor.hosts.doctor.finding import Finding
from spanfuse_processor.hosts.doctor.judging import FEW, judged, several, severity_of
from spanfuse_processor.hosts.doctor.sample import Sample


def requests(s: Sample) -> Finding:
    """Requests that are none."""
    number, good = s.counts["undecodable"], s.counts["requests"]
    return judged(
        "requests",
        severity_of(number, number + good),
        number,
        number + good,
        f"{good} requests were read, {number} could not be decoded",
        "Workers put those to the dead letters.",
        "Send ExportTraceServiceRequest, protobuf or JSON: encoding otlp_proto or otlp_json of the Collector.",
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
    return judged(
        "unreadable",
        severity_of(number, s.counts["spans"], from_share=FEW),
        number,
        s.counts["spans"],
        f"{number} spans have no valid ids, or cannot be read",
        "They count for nothing.",
        "Have the exporter looked at; report one of them if its ids are good.",
    )


def clock(s: Sample) -> Finding:
    """Clocks that differ from the broker's."""
    ahead, behind, of = s.counts["ahead"], s.counts["behind"], s.counts["timed"]
    number = ahead + behind
    if not of:
        return Finding("clock", "ok", 0, 0, "unknown: a recording does not say when spans were received")
    return judged(
        "clock",
        severity_of(number, of, from_share=FEW),
        number,
        of,
        f"{ahead} spans end more than 5 minutes after they were received, {behind} more than an hour before",
        "Windows of time (velocity, errors, budgets of a day) see them too early or too late.",
        "Set the clocks of their hosts by NTP. Spans that were held back for so long look alike.",
    )


def times(s: Sample) -> Finding:
    """Spans whose times cannot be."""
    number, of = s.counts["start_invalid"], s.counts["spans"]
    return judged(
        "times",
        severity_of(number, of, many="warn"),
        number,
        of,
        f"{number} calls start after their end, or more than a day before",
        "They count as of no duration.",
        "Have the instrumentation looked at.",
    )


def delivered_again(s: Sample) -> Finding:
    """Span ids that came more than once."""
    number, of = s.counts["delivered_again"], s.counts["spans"]
    return judged(
        "delivered again",
        severity_of(number, of, many="warn") if number > FEW * of else "ok",
        number,
        of,
        f"{number} spans came more than once, and count once",
        "Nothing is counted twice; they cost work.",
        "Look for two exporters or processors in one process.",
    )


def twins(s: Sample) -> Finding:
    """Spans that are equal but for their id."""
    doubled, of = s.counts["twins_counted"], s.counts["spans"]
    number = s.counts["twins"] + doubled
    return judged(
        "twins",
        severity_of(doubled, s.counts["llm"], from_share=FEW) if doubled else severity_of(number, of, many="warn"),
        number,
        of,
        f"{number} model spans differ from another in their id alone; {doubled} of them count all the same",
        "Each call is reported twice. Where spans have no parent, two that are alike may be two calls, and both count.",
        "Look for an instrumentation or a callback that is installed twice.",
    )


def nested(s: Sample) -> Finding:
    """Model calls that two instrumentations tell of."""
    number, of = s.counts["nested"], s.counts["spans"]
    return Finding(
        "nested", "ok", number, of, f"{number} model spans tell of a call that another span tells of, and count once"
    )


def partitions(s: Sample) -> Finding:
    """Traces that are spread over partitions."""
    traces = list(s.traces.values.values())
    spread = [trace for trace in traces if len(trace.partitions) > 1]
    matters = sum(trace.inherits for trace in spread)
    sessions = several(s.sessions.values.values(), lambda shared: shared.partitions)
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
    """Spans that a sampler let through."""
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


def coverage(s: Sample) -> Finding:
    """Calls that Guards let through, and those of them that are here."""
    if not s.guarded:
        return Finding("coverage", "ok", 0, 0, "unknown: no Guard has reported what it let through")
    begin = max(min(s.guarded), min(s.seen, default=0))  # a sample of a topic begins with each partition elsewhere
    guarded = sum(calls for step, calls in s.guarded.items() if step >= begin)
    seen = sum(calls for step, calls in s.seen.items() if begin - 1 <= step <= max(s.guarded) + 1)
    missing = max(0, guarded - seen)
    lost = s.counts["spans_dropped"]
    return judged(
        "coverage",
        severity_of(missing, guarded, from_share=FEW),
        missing,
        guarded,
        f"Guards let {guarded} calls through, and {min(seen, guarded)} of them are here; their processes could not send {lost} "
        "spans",
        "What is missing is neither judged nor charged.",
        "Look for processes that end before their spans are sent, streams that are not instrumented, and samplers.",
    )

"""A real agent process: it makes the calls it is told to over a real Guard and a real exporter, 100 ms apart.

    python -m tests.support.wire_agent --otlp URL --guard URL < plan.json > outcome.json

The plan is {"session": …, "calls": [...]}, with "tells": "logs" its content goes as log records, with "prints" its spans carry
fingerprints beside it; a call is {"messages", "output"}, {"prompt"}, {"tool", "arguments", "result"},
{"error": type} or {"wait_s"}; "cost_usd" and "model" go with the first two. The outcome says how many model calls were let
through and what refused the next one.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from opentelemetry import trace
from opentelemetry._logs import LogRecord
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode

from spanfuse import Blocked, Guard
from spanfuse.fingerprints import state_call
from spanfuse.otel import instrument

PAUSE_S = 0.1

Tells = Callable[[trace.Span, list[dict[str, Any]], dict[str, Any] | None], None]
"""Tells of a call's messages and of the output, if there is one, while its span is open."""


def _chat(tracer: trace.Tracer, call: dict[str, Any], messages: list[dict[str, Any]], tells: Tells) -> None:
    output = call.get("output", _text("assistant", "fine"))
    with tracer.start_as_current_span("chat", kind=SpanKind.CLIENT) as span:
        span.set_attribute("gen_ai.operation.name", "chat")
        span.set_attribute("gen_ai.provider.name", "openai")
        span.set_attribute("gen_ai.request.model", call.get("model", "gpt-4o-mini"))
        tells(span, messages, None if "error" in call else output)
        if "error" in call:
            span.set_attribute("error.type", call["error"])
            span.set_status(Status(StatusCode.ERROR, "refused"))
            return
        span.set_attribute("gen_ai.usage.input_tokens", call.get("input_tokens", 100))
        span.set_attribute("gen_ai.usage.output_tokens", call.get("output_tokens", 10))
        if "cost_usd" in call:
            span.set_attribute("gen_ai.cost.total_cost", call["cost_usd"])


def _attributes(span: trace.Span, messages: list[dict[str, Any]], output: dict[str, Any] | None) -> None:
    span.set_attribute("gen_ai.input.messages", json.dumps(messages))
    if output is not None:
        span.set_attribute("gen_ai.output.messages", json.dumps([output]))


def _prints(span: trace.Span, messages: list[dict[str, Any]], output: dict[str, Any] | None) -> None:
    """Beside the content, fingerprints of it."""
    _attributes(span, messages, output)
    state_call(span, messages, [output] if output is not None else None)


def _logs(url: str) -> Tells:
    """Content as the event of the conventions, by OpenTelemetry's exporter of logs."""
    provider = LoggerProvider()
    provider.add_log_record_processor(SimpleLogRecordProcessor(OTLPLogExporter(f"{url}/v1/logs")))
    logger = provider.get_logger("tests.wire")

    def tells(span: trace.Span, messages: list[dict[str, Any]], output: dict[str, Any] | None) -> None:
        found = {"gen_ai.input.messages": messages, "gen_ai.output.messages": [output] if output is not None else []}
        event = LogRecord(event_name="gen_ai.client.inference.operation.details", attributes=found)
        logger.emit(event)

    return tells


def _text(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _tool(tracer: trace.Tracer, call: dict[str, Any]) -> None:
    with tracer.start_as_current_span(f"execute_tool {call['tool']}") as span:
        span.set_attribute("gen_ai.operation.name", "execute_tool")
        span.set_attribute("gen_ai.tool.name", call["tool"])
        span.set_attribute("gen_ai.tool.call.arguments", json.dumps(call["arguments"]))
        span.set_attribute("gen_ai.tool.call.result", call["result"])


def run(plan: dict[str, Any], guard: Guard, tracer: trace.Tracer, otlp: str) -> dict[str, Any]:
    """Make the calls until one is refused; with `keep_on`, go on to the end and tell of each."""
    how = plan.get("tells", "attributes")
    tells = _logs(otlp) if how == "logs" else _prints if how == "prints" else _attributes
    allowed, refused, told = 0, None, []
    with guard.session(plan["session"], agent=plan.get("agent", "agent")):
        for call in plan["calls"]:
            if "wait_s" in call:
                time.sleep(call["wait_s"])
                continue
            if "tool" in call:
                _tool(tracer, call)
            else:
                messages = call.get("messages") or [_text("user", call.get("prompt", "hello"))]
                try:
                    guard.check(messages=messages)
                except Blocked as blocked:
                    refused = refused or blocked.rule
                    told.append(blocked.rule)
                    if plan.get("keep_on"):
                        continue
                    break
                allowed += 1
                told.append("")
                _chat(tracer, call, messages, tells)
            time.sleep(plan.get("pause_s", PAUSE_S))
    return {"session": plan["session"], "allowed": allowed, "blocked_by": refused, "told": told}


def main() -> None:
    """Run the plans on standard input, one JSON object a line, at the same time in threads."""
    import threading

    parser = argparse.ArgumentParser()
    parser.add_argument("--otlp", required=True)
    parser.add_argument("--guard", required=True)
    arguments = parser.parse_args()
    plans = [json.loads(line) for line in sys.stdin if line.strip()]
    provider = instrument(endpoint=arguments.otlp, service_name="wire-agent")
    tracer = trace.get_tracer("tests.wire")
    with Guard(arguments.guard, mode="enforce") as guard:
        if not guard.wait_ready(30):
            sys.exit("the Guard heard nothing")

        def work(plan: dict[str, Any]) -> None:
            sys.stdout.write(
                json.dumps(run(plan, guard, tracer, arguments.otlp)) + "\n"
            )  # print() would write the line's end apart

        threads = [threading.Thread(target=work, args=(plan,)) for plan in plans]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    provider.shutdown()


if __name__ == "__main__":
    main()

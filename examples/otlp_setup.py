"""Send the spans of your agent to spanfuse, with the session, agent, user and team on each.

    spanfuse up                                      # in another terminal
    python examples/otlp_setup.py

With an OpenTelemetry set-up of your own, add `ContextSpanProcessor()` to your tracer provider and point the exporter here.
"""

from __future__ import annotations

import os

from opentelemetry import trace

import spanfuse
from spanfuse.otel import instrument

OTLP = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")


def call_model(tracer: trace.Tracer) -> None:
    """What an instrumentation of your model client writes."""
    with tracer.start_as_current_span("chat gpt-4o-mini") as span:
        span.set_attribute("gen_ai.operation.name", "chat")
        span.set_attribute("gen_ai.request.model", "gpt-4o-mini")
        span.set_attribute("gen_ai.usage.input_tokens", 250)
        span.set_attribute("gen_ai.usage.output_tokens", 40)


def main() -> None:
    # A small delay between the end of a call and its export: a loop can only be stopped once its calls have arrived.
    provider = instrument(endpoint=OTLP, service_name="checkout")
    with spanfuse.session("checkout-42", agent="support", user="u-17", team="payments"):
        call_model(trace.get_tracer("example"))
    delivered = provider.force_flush(5000)
    provider.shutdown()
    print("one call of session checkout-42 was sent" if delivered else "the receiver did not answer")


if __name__ == "__main__":
    main()

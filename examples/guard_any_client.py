"""A Guard around any model client: here a function that only pretends to call one.

    spanfuse up --config examples/embedded.yaml      # in another terminal
    python examples/guard_any_client.py

The agent asks the same question again and again; its fourth call is refused before it is made.
"""

from __future__ import annotations

import json
import os
import time

from opentelemetry import trace

from spanfuse import Blocked, Guard
from spanfuse.otel import instrument

OTLP = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
API = os.environ.get("SPANFUSE_API_URL", "http://127.0.0.1:8787")


def ask_model(prompt: str) -> str:
    """Your client's call. Most instrumentations write such a span by themselves."""
    with trace.get_tracer("example").start_as_current_span("chat gpt-4o-mini") as span:
        asked = [{"role": "user", "parts": [{"type": "text", "content": prompt}]}]
        span.set_attributes(
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "openai",
                "gen_ai.request.model": "gpt-4o-mini",
                "gen_ai.usage.input_tokens": 12,
                "gen_ai.usage.output_tokens": 5,
                "gen_ai.input.messages": json.dumps(asked),
            }
        )
        return "I cannot say."


def main() -> None:
    provider = instrument(endpoint=OTLP, service_name="example")
    with Guard(subscriber=API) as guard, guard.session(f"example-{os.getpid()}", agent="weather"):
        guard.wait_ready(10)
        for number in range(1, 11):
            question = "What is the weather in Tokyo?"
            try:
                guard.check(messages=[{"role": "user", "content": question}])
            except Blocked as blocked:
                print(f"call {number} was refused: {blocked}")
                break
            print(f"call {number}: {ask_model(question)}")
            time.sleep(0.2)
    provider.shutdown()


if __name__ == "__main__":
    main()

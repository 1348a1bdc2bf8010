"""One agent of the demo: a real process, instrumented with the OpenTelemetry SDK and wearing a Guard.

    python -m spanfuse_processor.demo.agent NAME --otlp URL --llm URL --api URL

It tells its launcher what happens as JSON lines on stdout, begins when it reads a line from stdin, and ends with it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from typing import Any, Final
from urllib.request import Request, urlopen

from opentelemetry import trace
from opentelemetry.trace import SpanKind, Tracer

from spanfuse import Blocked, Guard
from spanfuse.otel import instrument
from spanfuse_processor.demo.scenarios import BY_NAME, Scenario, page, prompts

HTTP_TIMEOUT_S: Final = 10
READY_TIMEOUT_S: Final = 20
START_TIMEOUT_S: Final = 60


def tell(event: str, **fields: object) -> None:
    """Tell the launcher."""
    print(json.dumps({"event": event, **fields}), flush=True)


def as_parts(message: dict[str, Any]) -> dict[str, Any]:
    """An OpenAI chat message as the GenAI semantic conventions write it."""
    if message["role"] == "tool":
        part = {"type": "tool_call_response", "id": message["tool_call_id"], "response": message["content"]}
        return {"role": "tool", "parts": [part]}
    parts: list[dict[str, Any]] = []
    if message.get("content"):
        parts.append({"type": "text", "content": message["content"]})
    for call in message.get("tool_calls", ()):
        function = call["function"]
        arguments = json.loads(function["arguments"])
        parts.append({"type": "tool_call", "id": call["id"], "name": function["name"], "arguments": arguments})
    return {"role": message["role"], "parts": parts}


class Agent:
    """An agent that asks a model, and its Guard before that.

    Args:
        llm_url: base URL of the OpenAI-compatible endpoint.
    """

    def __init__(self, scenario: Scenario, guard: Guard, tracer: Tracer, llm_url: str) -> None:
        self._scenario = scenario
        self._guard = guard
        self._tracer = tracer
        self._url = f"{llm_url}/v1/chat/completions"
        self.allowed = 0

    def run(self) -> None:
        """Work until done.

        Raises:
            Blocked: when the Guard refuses a call.
        """
        if self._scenario.stopped_by is None:
            self._read_pages()
        else:
            texts = prompts(self._scenario.name)
            for _ in range(self._scenario.max_calls):
                self.chat([{"role": "user", "content": next(texts)}])

    def _read_pages(self) -> None:
        """A tool-calling agent: its last user message never changes while its history grows."""
        messages: list[dict[str, Any]] = [{"role": "user", "content": "Read the handbook and tell me what it says."}]
        for _ in range(self._scenario.max_calls):
            message = self.chat(messages)
            messages.append(message)
            if not message.get("tool_calls"):
                return
            for call in message["tool_calls"]:
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": self.read_page(call)})

    def chat(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        """One model call: ask the Guard, call, record the span, pause."""
        self._guard.check(messages=messages)
        model = self._scenario.model
        with self._tracer.start_as_current_span(f"chat {model}", kind=SpanKind.CLIENT) as span:
            span.set_attributes(
                {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.provider.name": "openai",
                    "gen_ai.request.model": model,
                    "gen_ai.input.messages": json.dumps([as_parts(m) for m in messages]),
                }
            )
            answer = self._post({"model": model, "messages": messages, "user": self._scenario.name})
            choice, usage = answer["choices"][0], answer["usage"]
            span.set_attributes(
                {
                    "gen_ai.response.model": answer["model"],
                    "gen_ai.response.finish_reasons": [choice["finish_reason"]],
                    "gen_ai.usage.input_tokens": usage["prompt_tokens"],
                    "gen_ai.usage.output_tokens": usage["completion_tokens"],
                    "gen_ai.output.messages": json.dumps([as_parts(choice["message"])]),
                }
            )
        self.allowed += 1
        tell("call", allowed=self.allowed)
        time.sleep(self._scenario.pause_s)
        message: dict[str, Any] = choice["message"]
        return message

    def read_page(self, call: dict[str, Any]) -> str:
        """The healthy agent's tool."""
        arguments = call["function"]["arguments"]
        with self._tracer.start_as_current_span("execute_tool read_page") as span:
            result = page(json.loads(arguments)["page"])
            span.set_attributes(
                {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "read_page",
                    "gen_ai.tool.call.id": call["id"],
                    "gen_ai.tool.call.arguments": arguments,
                    "gen_ai.tool.call.result": result,
                }
            )
        return result

    def _post(self, body: dict[str, Any]) -> dict[str, Any]:
        request = Request(self._url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urlopen(request, timeout=HTTP_TIMEOUT_S) as response:
            answer: dict[str, Any] = json.load(response)
        return answer


class Launcher:
    """The process that has started this one: it says when to begin, and this process ends when it does, however it ends."""

    def __init__(self) -> None:
        self._word = threading.Event()
        threading.Thread(target=self._listen, name="launcher", daemon=True).start()

    def _listen(self) -> None:
        if sys.stdin.readline():
            self._word.set()
            sys.stdin.read()
        os._exit(1)

    def wait_for_word(self) -> None:
        """Wait until all agents may begin; the launcher ends those that it has forgotten."""
        self._word.wait(START_TIMEOUT_S)


def main() -> None:
    """Run the agent that is named on the command line."""
    parser = argparse.ArgumentParser(prog="python -m spanfuse_processor.demo.agent")
    parser.add_argument("name", choices=sorted(BY_NAME))
    for option in ("--otlp", "--llm", "--api"):
        parser.add_argument(option, required=True, metavar="URL")
    arguments = parser.parse_args()
    scenario, launcher = BY_NAME[arguments.name], Launcher()
    provider = instrument(endpoint=arguments.otlp, service_name=f"demo-{scenario.name}")
    with Guard(subscriber=arguments.api) as guard:
        if not guard.wait_ready(READY_TIMEOUT_S):
            tell("failed", message="the Guard heard nothing from the API")
            return
        agent = Agent(scenario, guard, trace.get_tracer("spanfuse.demo"), arguments.llm)
        tell("ready")
        launcher.wait_for_word()
        with guard.session(scenario.session, agent=scenario.name):
            try:
                agent.run()
                tell("finished")
            except Blocked as blocked:
                tell("blocked", rule=blocked.rule, message=blocked.message)
    provider.shutdown()


if __name__ == "__main__":
    main()

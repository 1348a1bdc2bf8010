"""What an agent does in the fixtures of dialects, and whether its calls tell of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from spanfuse.reading.messages import new_input
from spanfuse.reading.texts import print_of
from spanfuse_schemas import Action, Call
from spanfuse_schemas.fingerprint import action_print

ASKED: Final = "What is the weather in Paris?"
TOOL: Final = "get_weather"
ARGUMENTS: Final[dict[str, Any]] = {"city": "Paris"}
RESULT: Final[dict[str, Any]] = {"temp_c": 21.0}
ANSWER: Final = "It is 21 degrees."


def is_asked(call: Call) -> bool:
    """Whether the call hears the question, and nothing before it."""
    return (call.history, call.input) == (0, new_input([{"role": "user", "content": ASKED}]))


def calls_tool(call: Call) -> bool:
    """Whether the call asks for the tool, or executes it, with its arguments."""
    return (call.called, call.action) == ((TOOL,), _called())


def hears_result(call: Call, result: Any = RESULT) -> bool:
    """Whether the call is about the tool's result, and is told what was called."""
    asked = {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": TOOL, "arguments": ARGUMENTS}}]}
    heard = new_input([asked, {"role": "tool", "tool_call_id": "c", "content": result}])
    return (call.answers, call.answered, call.input) == (_called(), (TOOL,), heard)


def brings_result(call: Call, result: Any = RESULT) -> bool:
    """Whether the execution of the tool brings its result."""
    return calls_tool(call) and call.output == print_of(result)


def answers(call: Call) -> bool:
    """Whether the call says the answer."""
    return not call.called and call.action == action_print([Action(print=print_of(ANSWER))])


def of_models(calls: Iterable[Call]) -> list[Call]:
    return [call for call in calls if call.kind == "llm"]


def _called() -> Any:
    return action_print([Action(tool=TOOL, print=print_of(ARGUMENTS))])

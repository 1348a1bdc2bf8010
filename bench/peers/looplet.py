"""looplet 0.4.1: its StagnationHook with defaults, called as its loop calls it, after every tool call.

Assumptions, in its favour where there is a choice:

- It only ever nudges; a nudge counts as a refusal of the next model call.
- An agent that acts by text has its text parsed into a tool call by its framework: the text counts as the arguments.
- It reads no clock and, with its default fingerprint, no results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from looplet.stagnation import StagnationHook
from looplet.types import ToolCall, ToolResult

from bench.peers.protocol import Call, Step, before_each_call, main


def first_refused(calls: Sequence[Call]) -> int | None:
    """The first model call after a nudge."""
    hook = StagnationHook()

    def observe(step: Step) -> bool:
        return _dispatched(hook, step["tool"], step["arguments"], step["result"])

    return before_each_call(calls, observe)


def _dispatched(hook: StagnationHook, tool: str, arguments: object, result: str) -> bool:
    args = arguments if isinstance(arguments, dict) else {"text": arguments}
    call = ToolCall(tool=tool or "text", args=args, call_id="c")
    return hook.post_dispatch(None, None, call, ToolResult(call.tool, "", result), 0) is not None


def hot_path(texts: list[str]) -> Callable[[], None]:
    """`post_dispatch` of a call with short arguments; the result, which holds the text, is not looked at."""
    pages = [{"query": "open orders", "page": number} for number in range(len(texts))]
    calls = [ToolCall(tool="search", args=page, call_id="c") for page in pages]
    done = [(call, ToolResult("search", "", text)) for call, text in zip(calls, texts, strict=True)]

    def agent() -> None:
        hook = StagnationHook()
        for call, result in done:
            hook.post_dispatch(None, None, call, result, 0)

    return agent


if __name__ == "__main__":
    main("looplet", first_refused, hot_path)

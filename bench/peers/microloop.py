"""microloop 0.3.0: its Monitor with defaults, shown one event per tool call, or per text where a reply calls no tool.

Assumptions, in its favour where there is a choice:

- Its default policy only observes. Any status but "healthy" counts as a refusal of the next model call: its own `inspect`
  command calls that step "detected".
- The action is the tool's name and its arguments as JSON with sorted keys, or the reply's text; the observation is the result
  as the next model call was told it. No state and no metrics are given, since spans have none.
- It reads no clock.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from microloop import Monitor, ProgressState

from bench.peers.protocol import Call, Step, before_each_call, main


def first_refused(calls: Sequence[Call]) -> int | None:
    """The first model call after a step that was not healthy."""
    monitor = Monitor()

    def observe(step: Step) -> bool:
        decision = monitor.observe(_action(step), step["result"])
        return bool(decision.status != ProgressState.Healthy)

    return before_each_call(calls, observe)


def _action(step: Step) -> str:
    arguments = step["arguments"]
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, sort_keys=True)
    return f"{step['tool']} {text}" if step["tool"] else text


def hot_path(texts: list[str]) -> Callable[[], None]:
    """`observe` of a short action whose observation is the text."""
    events = [(f'search {{"page": {number}, "query": "open orders"}}', text) for number, text in enumerate(texts)]

    def agent() -> None:
        monitor = Monitor()
        for action, observation in events:
            monitor.observe(action, observation)

    return agent


if __name__ == "__main__":
    main("microloop", first_refused, hot_path)

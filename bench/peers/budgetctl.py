"""budgetctl 0.1.0 (Chappie): its LiteLLM callback in enforce mode, called as the LiteLLM proxy calls it.

Assumptions, in its favour where there is a choice:

- `CHAPPIE_MODE=enforce`, everything else by default: observing is its default, and would stop nobody.
- Its agent id is the session id, so that sessions do not share a window.
- The call before the model is made at the span's start, the one after it at the span's end, on a clock that tells the recorded
  time. Calls of a session are taken one after the other, also those that were in flight together.
- A reply is recorded as a success with the cost that we compute, an error as a failure.
- Prices come from the file that LiteLLM brings along, not from the network.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

from bench.peers.protocol import Call, main

os.environ |= {"CHAPPIE_MODE": "enforce", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}

import chappie.engine.circuit_breaker
import chappie.engine.loop_detector
import chappie.store.memory
from chappie.engine.loop_detector import LoopDetector
from chappie.logger import ChappieLogger
from fastapi import HTTPException

logging.disable(logging.CRITICAL)


class RecordedTime:
    """Stands for the module `time` where Chappie reads it."""

    now_s = 0.0

    def time(self) -> float:
        """Seconds since the Unix epoch."""
        return self.now_s

    monotonic = time


def first_refused(calls: Sequence[Call]) -> int | None:
    """The first call that got HTTP status 429."""
    clock = RecordedTime()
    for module in (chappie.engine.circuit_breaker, chappie.engine.loop_detector, chappie.store.memory):
        module.time = clock
    return asyncio.run(_run(ChappieLogger(), clock, calls))


async def _run(proxy: Any, clock: RecordedTime, calls: Sequence[Call]) -> int | None:
    for index, call in enumerate(calls):
        data = {"messages": call["messages"], "model": call["model"], "metadata": {"session_id": "s"}}
        clock.now_s = call["start_s"]
        try:
            await proxy.async_pre_call_hook({}, None, data, "completion")
        except HTTPException:
            return index
        clock.now_s = call["end_s"]
        known = {**data, "litellm_params": {"metadata": data["metadata"]}, "response_cost": call["cost_usd"]}
        after = proxy.async_log_failure_event if call["failed"] else proxy.async_log_success_event
        await after(known, None, None, None)
    return None


def hot_path(texts: list[str]) -> Callable[[], None]:
    """`LoopDetector.check` and `record` of a user message with the text; the breaker and the budget come on top."""
    inputs = [[{"role": "user", "content": text}] for text in texts]

    def agent() -> None:
        detector = LoopDetector()
        for messages in inputs:
            detector.check("s", messages, "gpt-4o-mini")
            detector.record("s", messages, "gpt-4o-mini")

    return agent


if __name__ == "__main__":
    main("budgetctl", first_refused, hot_path)

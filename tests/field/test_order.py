"""Spans that arrive in another order than they ended."""

from __future__ import annotations

import pytest

from tests.support.road import play
from tests.support.script import Act, agent, tool

TEXT = "the text of a file, long enough to be told from a mere acknowledgement"
LOOPS = {
    "plain": [tool("ls", path="/d") >> TEXT] * 8,
    "cycle of three": [tool(name) >> f"{TEXT} {name}" for name in "abc"] * 5,
}


@pytest.mark.parametrize("name", LOOPS)
def test_r016_a_tool_span_that_comes_late_is_no_parallel_one(name: str) -> None:
    """Two steps one after the other, told in the wrong order, are still two steps: only what overlaps in time is one."""
    acts: list[Act] = LOOPS[name]
    tools = [s for s in agent(*acts, shows="spans") if not s.model_call]
    swapped = [s for i in range(0, len(tools) - 1, 2) for s in (tools[i + 1], tools[i])]
    played = play(swapped, as_given=True)
    assert played.rules & {"repeat.no_progress", "cycle", "stagnation"}
    assert all(step.tool for step in played.states["s"].steps.ring)

"""The demo from its start to its end."""

from __future__ import annotations

import json
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from spanfuse_processor.demo.board import Board
from spanfuse_processor.demo.host import DemoHost
from spanfuse_processor.demo.llm import FakeLlm
from spanfuse_processor.demo.processes import Agents
from spanfuse_processor.demo.scenarios import SCENARIOS
from spanfuse_processor.demo.view import View, view_of

READY_TIMEOUT_S: Final = 25
"""How long the agents may take to start, seconds."""
RUN_TIMEOUT_S: Final = 25
"""How long they may then run, seconds."""
COST_INTERVAL_S: Final = 0.25
"""How often the money is asked for, seconds."""


def run_demo(output: str) -> int:
    """Run the demo.

    Args:
        output: `table`: shown while it runs; `json`: the outcome alone, at the end.

    Returns:
        the exit code: 0 if all five agents ended as they must.
    """
    board = Board()
    with (
        _terminable(),
        tempfile.TemporaryDirectory(prefix="spanfuse-demo-") as folder,
        FakeLlm() as llm,
        DemoHost(Path(folder)) as host,
        view_of(board, output) as view,
        Agents(SCENARIOS, otlp=host.otlp_url, llm=llm.url, api=host.api_url) as agents,
    ):
        _follow(board, agents, view, host)
    return _conclude(board, output)


@contextmanager
def _terminable() -> Iterator[None]:
    """End on SIGTERM as on Ctrl-C, so that the agents are ended too."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _follow(board: Board, agents: Agents, view: View, host: DemoHost) -> None:
    """Show what the agents tell until all have ended, or their time is over."""
    deadline = time.monotonic() + READY_TIMEOUT_S
    started, next_cost = False, 0.0
    while not board.ended and time.monotonic() < deadline:
        event = agents.next_event(timeout_s=0.1)
        if event is not None:
            row = board.rows[event[0]]
            row.apply(event[1])
            view.changed(row)
        if not started and all(row.state != "starting" for row in board):
            started, deadline = True, time.monotonic() + RUN_TIMEOUT_S
            agents.go()
        if started and time.monotonic() >= next_cost:
            next_cost = time.monotonic() + COST_INTERVAL_S
            _ask_costs(board, host)
    _ask_costs(board, host)


def _ask_costs(board: Board, host: DemoHost) -> None:
    for row in board:
        row.cost_nano_usd = host.cost_nano_usd(row.scenario.session)


def _conclude(board: Board, output: str) -> int:
    differences = board.differences()
    if output == "json":
        print(json.dumps(board.outcome()), flush=True)
    elif not differences:
        print(
            "All as it must be: four runaways were stopped before a call, and the healthy agent finished.", flush=True
        )
    for line in differences:
        print(f"spanfuse: {line}", file=sys.stderr, flush=True)
    return 1 if differences else 0

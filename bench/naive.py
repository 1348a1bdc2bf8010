"""The baseline of the stream bench: Faust as its tutorial has it. One message a call, one table write a call.

Run as `python -m bench.naive BROKERS PARTITIONS CALLS`; says when it has done that many calls.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
import time

import faust

from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.session import SessionState
from spanfuse_schemas import Call, Policy
from spanfuse_schemas.topics import CONTROL

APP_ID = "bench-naive"
SOURCE = "bench.naive"
CHANGELOG = f"{APP_ID}-sessions-changelog"


def main() -> None:
    """Run until killed."""
    brokers, partitions, wanted = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    logging.disable(logging.CRITICAL)
    app = faust.App(
        APP_ID,
        broker=f"kafka://{brokers}",
        topic_partitions=partitions,
        datadir=tempfile.mkdtemp(),
        store="memory://",
        web_enabled=False,
        topic_disable_leader=True,
    )
    source = app.topic(SOURCE, key_serializer="raw", value_type=bytes, value_serializer="raw")
    control = app.topic(CONTROL, key_serializer="raw", value_serializer="raw")
    table = app.Table("sessions", key_type=bytes, value_type=bytes)
    pipeline = Pipeline(Policy(mode="enforce"))
    done, began = 0, 0.0

    @app.agent(source)
    async def detect(stream: faust.StreamT[bytes]) -> None:
        nonlocal done, began
        async for key, value in stream.items():
            began = began or time.perf_counter()
            call: Call = Call.from_json(value)
            stored = table.get(key)
            state = SessionState.restore(stored) if stored else SessionState(call.session)
            outcome = pipeline.step(state, call)
            for decision in outcome.decisions:
                await control.send(key=decision.key.encode(), value=decision.to_json())
            table[key] = state.snapshot()
            done += 1
            if done == wanted:
                line = json.dumps({"calls": done, "seconds": time.perf_counter() - began})
                os.write(1, line.encode() + b"\n")  # Faust's worker puts a logger in the place of stdout

    sys.argv = ["naive", "worker", "--without-web"]
    app.main()


if __name__ == "__main__":
    main()

"""What a call costs by the length of its new text: our core, our core with the fingerprint, and what others do with the text.

Our fingerprint is computed where the span is read, once a text; the core's step sees its hashes only. A detector inside the
agent's process does both at once, and saves the reading of the span, which `bench ingest` measures.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from bench.peers import environment
from bench.peers.protocol import median_us
from bench.report import Figure, Unmeasured
from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.session import SessionState
from spanfuse_schemas import Action, Call, Fingerprint, Message, Policy
from spanfuse_schemas.fingerprint import action_print, fingerprint, input_print

SIZES: Final = (200, 2_000, 20_000)
"""Length of the text that is new in each call, characters."""

PEERS: Final = {
    "budgetctl": "check + record",
    "microloop": "observe",
    "looplet": "post_dispatch",
}
"""Peer → what is timed. looplet's reads no result, and so not the text."""

TIMEOUT_S: Final = 300

VERSUS: Final = "sha256 of 2,000 bytes"


def run() -> Iterator[Figure | Unmeasured]:
    """For each length: ours, then the peers where they can be run."""
    theirs = {peer: peers_us(peer) for peer in PEERS}
    for n, size in enumerate(SIZES):
        at, baseline = f"{size:,} characters", median_us(_sha256, 2_000)

        def figure(name: str, us: float, aim: str = "", at: str = at, baseline: float = baseline) -> Figure:
            return Figure(f"{name}, {at}", us, "us/call", baseline, VERSUS, aim)

        yield figure("core step", median_us(partial(_agent, whole=False), size), "< 30")
        yield figure("fingerprint + core step", median_us(partial(_agent, whole=True), size))
        for peer, what in PEERS.items():
            name, found = f"{peer} {environment.PINS[peer]} {what}", theirs[peer]
            yield Unmeasured(f"{name}, {at}", found) if isinstance(found, str) else figure(name, found[n])


def _sha256(texts: list[str]) -> Callable[[], None]:
    data = [text.encode() for text in texts]

    def hash_all() -> None:
        for text in data:
            hashlib.sha256(text).digest()

    return hash_all


def _agent(texts: list[str], *, whole: bool) -> Callable[[], None]:
    prints = [_prints(text) for text in texts]
    # What a call asks for is what the next one answers.
    calls = [_call(n, prints[n], prints[(n + 1) % len(prints)][1]) for n in range(len(texts))]

    def agent() -> None:
        pipeline, state = Pipeline(Policy(mode="enforce")), SessionState("s")
        for call, text in zip(calls, texts, strict=True):
            if whole:
                _prints(text)
            pipeline.step(state, call)

    return agent


def _prints(text: str) -> tuple[Fingerprint | None, Fingerprint | None]:
    """Of a tool result with the text, and of the tool call, with short arguments, that it answers."""
    result = Message(role="tool", tool="search", call_id="c", print=fingerprint(text))
    asked = {"query": "open orders", "page": text[:16]}
    return input_print((result,)), action_print((Action(tool="search", call_id="c", print=fingerprint(asked)),))


def _call(number: int, prints: tuple[Fingerprint | None, Fingerprint | None], asked: Fingerprint | None) -> Call:
    start = 1_750_000_000 * 10**9 + number * 10**9
    return Call(
        trace_id="a" * 32,
        span_id=f"{number + 1:016x}",
        start_ns=start,
        end_ns=start + 10**8,
        session="s",
        operation="chat",
        content="content",
        history=2 * number + 2,
        input=prints[0],
        answers=prints[1],
        answered=("search",),
        called=("search",),
        action=asked,
    )


def peers_us(peer: str) -> list[float] | str:
    """Median microseconds by length, or why there are none."""
    try:
        command = [str(environment.python()), "-m", f"bench.peers.{peer}", "--time", *map(str, SIZES)]
        done = subprocess.run(
            command, cwd=environment.ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
        )
        return [float(us) for us in json.loads(done.stdout)["us"]]
    except environment.NoPeers as error:
        return f"the peers cannot be installed: {error}"
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return str(error)

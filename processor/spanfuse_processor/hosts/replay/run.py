"""A replay: `sessions` of each lane, in as many processes as there are, then `scopes` of all lanes in one order.

What comes of it depends on neither the number of processes nor which of them was first.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from heapq import merge
from itertools import chain
from pathlib import Path
from typing import Final

import msgpack

from spanfuse_processor.errors import DecodeError
from spanfuse_processor.hosts.collector import seldom_collected
from spanfuse_processor.hosts.replay.packed import unpack
from spanfuse_processor.hosts.replay.processes import Crew, Job, Told
from spanfuse_processor.hosts.replay.report import Report
from spanfuse_processor.hosts.replay.scopes import Scopes, may_refuse
from spanfuse_processor.hosts.replay.sessions import LaneReport, Row, Sessions, Take
from spanfuse_processor.hosts.replay.sources import Progress, untold
from spanfuse_processor.hosts.replay.spool import Frame, Read, Spool, frames, write
from spanfuse_processor.hosts.replay.states import MAX_LIVE_SESSIONS
from spanfuse_processor.hosts.replay.together import report_of
from spanfuse_schemas import Charge, ChargeBatch, Policy

TOGETHER: Final = 8
"""Policies that are replayed in one reading of a lane: their calls are decoded once."""
ENOUGH: Final = 5_000
"""Calls of all policies together from which on it pays to start processes."""


def replay_calls(
    spool: Spool,
    policies: Sequence[Policy],
    *,
    processes: int = 1,
    progress: Progress = untold,
    live_sessions: int = MAX_LIVE_SESSIONS,
) -> list[Report]:
    """Replay packed calls under several policies, none of which knows of the others.

    Args:
        policies: the rules to try; their `mode` does not matter, since nothing is enforced and blocks are always simulated.
        processes: how many work; what comes of it is the same. Of few calls it is done in this one.
        progress: is told how much is done.
        live_sessions: states of sessions that each process holds in memory.

    Returns:
        A report for each policy.

    Raises:
        SpanfuseError: one of the processes was killed.
    """
    lanes = spool.lanes
    in_order = sorted(lanes)
    few = spool.calls * len(policies) < ENOUGH
    numbered = list(enumerate(policies))
    groups = [numbered[at : at + TOGETHER] for at in range(0, len(numbered), TOGETHER)]
    first = [Job(_sessions, (lane, group, live_sessions // len(group))) for group in groups for lane in lanes]
    second = [Job(_scopes, (number, policy, in_order, live_sessions)) for number, policy in numbered]
    total, done = float(spool.size * len(groups) or 1), 0

    def told(more: int) -> None:
        nonlocal done
        done += more
        progress("replaying", min(done, total), total)

    reports: dict[int, Report] = {}
    with Crew(1 if few else processes) as crew:
        for _ in crew.do(first, told):
            pass
        for number, report in crew.do(second, lambda more: None):
            reports[number] = _with_read(report, spool.read)
    return [reports[number] for number, _ in numbered]


def _sessions(lane: Path, policies: Sequence[tuple[int, Policy]], live: int, told: Told) -> None:
    """The sessions of a lane under some policies; what they come to is beside the lane's file."""
    with seldom_collected(), ExitStack() as stack:
        stages = [(number, _stage(stack, lane, number, policy, live)) for number, policy in policies]
        broken: dict[int, str] = {}
        for frame in frames(lane, told):
            try:
                batch = unpack(frame.data)
            except DecodeError as error:
                broken[frame.ordinal] = str(error)
                continue
            for _, stage in stages:
                stage.batch(frame.ordinal, batch, frame.size)
        for number, stage in stages:
            found = stage.finished()
            found.broken = broken
            _beside(lane, "found", number).write_bytes(pickle.dumps(found))


def _stage(stack: ExitStack, lane: Path, number: int, policy: Policy, live: int) -> Sessions:
    charges = stack.enter_context(_beside(lane, "charges", number).open("wb"))

    def charge(ordinal: int, made: list[Charge]) -> None:
        write(charges, Frame(ordinal, len(made), ChargeBatch.made(charges=tuple(made)).to_json()))

    row = None
    if may_refuse(policy):
        rows = stack.enter_context(_beside(lane, "rows", number).open("wb"))
        packer = msgpack.Packer(unicode_errors="surrogatepass")

        def row(one: Row | Take) -> None:
            rows.write(packer.pack(one))

    return stack.enter_context(Sessions(policy, lane.name, charge, row, live))


def _scopes(number: int, policy: Policy, lanes: Sequence[Path], live: int, told: Told) -> Report:
    """What the lanes come to together under one policy."""
    with Scopes(policy, live) as scopes:
        files = [_beside(lane, "charges", number) for lane in lanes]
        for frame in merge(*map(frames, files), key=lambda frame: frame.ordinal):
            scopes.take(frame.ordinal, ChargeBatch.from_json(frame.data).charges)
        parts: list[LaneReport] = [pickle.loads(_beside(lane, "found", number).read_bytes()) for lane in lanes]
        report = report_of(parts, policy, scopes, (_rows(_beside(lane, "rows", number)) for lane in lanes))
    for file in chain.from_iterable(lane.parent.glob(f"{lane.name}.*-{number}") for lane in lanes):
        file.unlink()
    return report


def _rows(path: Path) -> Iterator[Row | Take]:
    with path.open("rb") as file:
        for fields in msgpack.Unpacker(file, use_list=False, unicode_errors="surrogatepass"):
            yield Row(*fields) if len(fields) > len(Take._fields) else Take(*fields)


def _beside(lane: Path, what: str, number: int) -> Path:
    return lane.with_name(f"{lane.name}.{what}-{number}")


def _with_read(report: Report, read: Read) -> Report:
    """With what was read, before what could not be decoded of it later."""
    report.coverage.update(requests=read.requests, spans=read.spans)
    report.ingest, report.files = read.ingest, read.files
    report.failed(read.undecodable, read.problems)
    return report

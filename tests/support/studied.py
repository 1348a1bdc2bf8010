"""Recordings to tune by: runaways that ask one thing again and again, and good agents of which some ask it a few times.

`python -m tests.support.studied` writes the example of docs/tuning.md.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from spanfuse_processor.hosts.replay import Files, Report, Spool, calls_of, replay_calls
from spanfuse_processor.hosts.tuning.grid import axes
from spanfuse_processor.hosts.tuning.labels import Label, Labels
from spanfuse_processor.hosts.tuning.spooled import calls_in
from spanfuse_processor.hosts.tuning.study import Study, study
from spanfuse_schemas import CallBatch, Policy
from tests.support.recorded import attribute, chat_span, request, write_lines

Requests = Iterator[dict[str, Any]]


def asks(session: str, times: int, others: int = 3, agent: str = "clerk") -> Requests:
    """A session that asks one thing so many times, then others."""
    texts = ["Where is order 12?"] * times + [f"What about shelf {'abcdefghijkl'[n]}?" for n in range(others)]
    for number, text in enumerate(texts):
        span = chat_span(number, [("user", text)], session=session)
        span["attributes"].append(attribute("gen_ai.agent.name", agent))
        yield request(span)


def fleet(runaways: int, patient: int, good: int) -> tuple[list[dict[str, Any]], Labels]:
    """Sessions and their labels.

    Args:
        runaways: sessions that ask one thing twelve times: no more than three are of use.
        patient: good ones that ask it four times, and then get on.
        good: good ones that never ask twice.
    """
    found: list[dict[str, Any]] = []
    labels: Labels = {}
    for kind, number, times in (("runaway", runaways, 12), ("patient", patient, 4), ("good", good, 1)):
        for n in range(number):
            session = f"{n:03}-{kind}"
            found += asks(session, times, agent=kind)
            where = {"onset": 1, "block_at": 3} if kind == "runaway" else {}
            labels[session] = Label.model_validate(
                {"session": session, "label": "runaway" if kind == "runaway" else "good", **where}
            )
    return found, labels


def example(folder: Path) -> None:
    """Sixty orders and their labels: twelve run away, six wait for an answer, in two of every three sessions nothing comes up
    twice."""
    labels: list[Label] = []
    batches: list[str] = []
    for n in range(60):
        kind = "runaway" if n % 5 == 2 else "patient" if n % 10 == 5 else "good"
        session, times = f"order-{n:02}", {"runaway": 8 + n % 7, "patient": 4, "good": 1}[kind]
        others = 2 + n * 7 % 9
        with spooled_lines(asks(session, times, others, agent="returns" if n % 3 else "orders")) as spool:
            batches += [CallBatch.made(calls=tuple(calls_in(spool))).to_json().decode()]
        label = {"session": session, "label": "good" if kind != "runaway" else "runaway"}
        labels.append(Label.model_validate(label | ({"onset": 1, "block_at": 3} if kind == "runaway" else {})))
    data = "".join(f"{line}\n" for line in batches).encode()
    (folder / "orders.calls.jsonl.gz").write_bytes(gzip.compress(data, mtime=0))
    lines = (label.to_json().decode() for label in labels)
    (folder / "orders.labels.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def spooled_lines(requests: Iterable[dict[str, Any]]) -> Spool:
    """The calls of requests that stand in no file."""
    with TemporaryDirectory() as folder:
        return spooled(Path(folder), requests)


def spooled(folder: Path, requests: Iterable[dict[str, Any]]) -> Spool:
    """Their calls."""
    return calls_of(Files((write_lines(folder / "recording.jsonl", requests),)))


def studied(
    folder: Path,
    sessions: tuple[list[dict[str, Any]], Labels],
    *sweep: str,
    percent: float = 0,
    policy: Policy | None = None,
    labels: Labels | None = None,
) -> Study:
    """A study of them."""
    policy = policy or Policy()
    with spooled(folder, sessions[0]) as spool:

        def run(policies: Any) -> list[Report]:
            return replay_calls(spool, policies)

        known = sessions[1] if labels is None else labels
        return study(policy, axes(policy, sweep or ("repeat.prompt",)), known, run, percent=percent)


if __name__ == "__main__":
    example(Path(__file__).parents[2] / "examples")

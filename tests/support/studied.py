"""Recordings to tune by: runaways that ask one thing again and again, and good agents of which some ask it a few times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from spanfuse_processor.hosts.replay import Files, Report, Spool, calls_of, replay_calls
from spanfuse_processor.hosts.tuning.grid import axes
from spanfuse_processor.hosts.tuning.labels import Label, Labels
from spanfuse_processor.hosts.tuning.study import Study, study
from spanfuse_schemas import Policy
from tests.support.recorded import attribute, chat_span, request, write_lines

Requests = Iterator[dict[str, Any]]


def asks(session: str, times: int, others: int = 3, agent: str = "clerk") -> Requests:
    """A session that asks one thing so many times, then others."""
    texts = ["Where is order 12?"] * times + [f"What about shelf {'abcdefghij'[n]}?" for n in range(others)]
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

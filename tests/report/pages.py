"""Reports to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spanfuse_processor.hosts.replay import replay_calls
from spanfuse_processor.report.files import write_replay, write_study
from spanfuse_schemas import Policy
from tests.support.agents import policy
from tests.support.recorded import attribute, chat_span, request
from tests.support.studied import fleet, spooled, studied


def tuned_page(folder: Path, **options: Any) -> str:
    """A study that recommends something, as a page."""
    sessions = fleet(25, 10, 30)
    found = studied(folder, sessions, "repeat.prompt.count=2,3,4,5,13", "limits.max_steps=6,12", **options)
    with spooled(folder, sessions[0]) as spool:
        write_study(folder / "tune.html", spool, found)
    return (folder / "tune.html").read_text(encoding="utf-8")


def replayed_page(folder: Path, requests: list[dict[str, Any]] | None = None, *, compared: bool = True) -> str:
    """A replay, by default compared with another policy, as a page."""
    policies = [Policy(), policy(repeat_prompt={"count": 5})]
    with spooled(folder, fleet(3, 2, 4)[0] if requests is None else requests) as spool:
        report, *old = replay_calls(spool, policies if compared else policies[:1])
        write_replay(folder / "replay.html", spool, report, *old)
    return (folder / "replay.html").read_text(encoding="utf-8")


def hostile(name: str) -> list[dict[str, Any]]:
    """A loop of an agent that is called so, as are its session and model."""
    found = []
    for number in range(6):
        span = chat_span(number, [("user", "same")])
        named = {key: attribute(key, name) for key in ("session.id", "gen_ai.request.model", "gen_ai.agent.name")}
        span["attributes"] = [a for a in span["attributes"] if a["key"] not in named] + list(named.values())
        found.append(request(span))
    return found

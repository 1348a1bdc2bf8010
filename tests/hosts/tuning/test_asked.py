"""A study is made of one reading: of the labelled sessions alone where nobody else matters, of all where somebody does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spanfuse_processor.config import Config
from spanfuse_processor.hosts.replay import Files, Spool
from spanfuse_processor.hosts.replay.sources import untold
from spanfuse_processor.hosts.replay.spool import Writer
from spanfuse_processor.hosts.tuning.asked import Asked
from spanfuse_processor.hosts.tuning.labels import Labels
from spanfuse_processor.hosts.tuning.spooled import calls_in, narrowed
from spanfuse_processor.hosts.tuning.study import Study
from spanfuse_schemas import Alias, CallBatch
from tests.support.agents import prompt
from tests.support.recorded import write_lines
from tests.support.studied import fleet, spooled


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Labels]:
    """Four runaways, two patient and four good sessions with labels, and thirty without."""
    requests, labels = fleet(4, 2, 34)
    known = {name: label for name, label in labels.items() if not name.endswith("-good") or name < "004"}
    return write_lines(tmp_path_factory.mktemp("recorded") / "r.jsonl", requests), known


def studied(path: Path, labels: Labels, *sweep: str, config: dict[str, Any] | None = None, **options: Any) -> Study:
    settings = Config.model_validate(config or {})
    asked = Asked.read(settings, (), (), sweep or ("repeat.prompt.count=2,3,4",), 0, 1)
    asked = Asked(asked.config, labels, options.get("markers", ()), asked.axes, 0, options.get("processes", 1))
    with asked.spooled(Files((path,)), untold) as spool:
        return asked.studied(spool, untold)


def test_settings_are_tried_on_the_labelled_sessions_alone_with_the_same_result(
    recorded: tuple[Path, Labels], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, labels = recorded
    few = studied(path, labels)
    monkeypatch.setattr("spanfuse_processor.hosts.tuning.spooled.MOST", 0.0)
    every = studied(path, labels)
    assert (few.narrow, every.narrow) == (True, False)
    one, other = few.to_dict(), every.to_dict()
    assert one["recommended"] == other["recommended"]
    assert one["sessions"] == 40, "what is reported of all is of all"
    assert [point["score"] for point in one["values"]] == [point["score"] for point in other["values"]]
    assert "all" not in one["values"][0]


@pytest.mark.parametrize(
    ("sweep", "config"),
    [
        (("agent.breaker.sessions=3,5",), {}),
        ((), {"detectors": {"agent.breaker": {"mode": "block"}}}),
    ],
    ids=["swept", "configured"],
)
def test_where_others_decide_what_becomes_of_a_session_all_are_replayed(
    recorded: tuple[Path, Labels], sweep: tuple[str, ...], config: dict[str, Any]
) -> None:
    assert studied(*recorded, *sweep, config=config).narrow is False


def test_a_spool_of_some_sessions_holds_their_calls_in_order(tmp_path: Path) -> None:
    requests, _ = fleet(2, 0, 8)
    with spooled(tmp_path, requests) as spool:
        some = narrowed(spool, {"000-runaway", "nobody"})
        assert some is not None
        with some:
            mine = [call for call in calls_in(spool) if call.session == "000-runaway"]
            assert list(calls_in(some)) == mine
            assert some.calls == len(mine) == 15
        assert narrowed(spool, {f"{n:03}-{kind}" for n in range(8) for kind in ("runaway", "good")}) is None


def test_where_calls_turn_out_to_be_of_another_session_all_are_replayed() -> None:
    alias = Alias(id="a" * 16, trace_id="b" * 32, session="trace:b", into="s")
    with Spool() as spool:
        with Writer(spool) as writer:
            writer.packed(CallBatch(calls=tuple(prompt("hello", session=f"s{n}") for n in range(9))).to_json())
            writer.packed(CallBatch(calls=(prompt("hello", session="trace:b"),), aliases=(alias,)).to_json())
        assert narrowed(spool, {"s"}) is None


def test_what_is_swept_is_read_so_that_it_can_be_seen(recorded: tuple[Path, Labels]) -> None:
    """How far a user turn is from the first is only measured where somebody asks."""
    found = studied(*recorded, "safety_drift.min_turns=3,5")
    assert found.verdict in ("keep", "unconfirmed", "allowance", "dear")
    asked = Asked.read(Config(), (), (), ("safety_drift", "near.semantic=true"), 0, 1)
    assert [axis.rule for axis in asked.axes] == ["safety_drift", "safety_drift", "near"]


def test_the_number_of_processes_changes_nothing(recorded: tuple[Path, Labels]) -> None:
    assert studied(*recorded).to_dict() == studied(*recorded, processes=2).to_dict()

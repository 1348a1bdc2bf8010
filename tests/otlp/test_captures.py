"""Recorded requests of real instrumentations against what is known to have happened."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.otlp.fixtures import NOW_NS, normaliser
from tests.otlp.gaps import ABOUT
from tests.otlp.truth import FOLDER, RECORDED, logs, recorded, spans, wrong

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="no recordings here")


@pytest.mark.parametrize(("capture", "scenario"), RECORDED)
def test_a_recording_comes_to_what_happened(capture: str, scenario: str) -> None:
    """Calls, tokens, cost, names, errors, and what was asked, done and brought; what is not recorded is in the table."""
    assert wrong(capture, scenario) == {}


@pytest.mark.parametrize(("capture", "scenario"), RECORDED)
def test_both_encodings_come_to_the_same_calls(capture: str, scenario: str) -> None:
    assert recorded(capture, scenario) == recorded(capture, scenario, "json")


@pytest.mark.parametrize("capture", sorted({capture for capture, scenario in RECORDED if scenario == "tools"}))
def test_what_a_model_asks_for_is_what_is_run_and_what_the_next_call_answers(capture: str) -> None:
    """So that a call, its execution and its answer count as one step, whichever of them come."""
    calls = recorded(capture, "tools")
    models, tools = [c for c in calls if c.kind == "llm"], [c for c in calls if c.kind == "tool"]
    told = [c for c in models if c.answers is not None]
    for before, after in pairwise(models):
        assert not told or (after.answers, after.answered) == (before.action, before.called)
    assert [c.history for c in told] == sorted({c.history for c in told})
    for model, tool in zip(models, sorted(tools, key=lambda c: c.start_ns), strict=False):
        known = model.action is not None and model.action.canon and tool.action is not None and tool.action.canon
        assert not known or capture in BARE or model.action == tool.action


BARE = {"langchain_openinference"}
"""Whose tool spans have the value of a single argument without its name."""


@pytest.mark.parametrize("capture", sorted(ABOUT))
def test_every_folder_that_is_known_is_there(capture: str) -> None:
    assert (FOLDER / capture).is_dir()


@pytest.mark.parametrize("scenario", ["chat", "tools", "stream", "session"])
def test_content_that_comes_after_its_spans_is_the_same_content(scenario: str) -> None:
    """Each model call goes out once more, with what its log records hold."""
    ingest, known = normaliser(), recorded("openai_v2_events", scenario)
    bare = ingest.batch(spans("openai_v2_events", scenario), 2 * NOW_NS).calls
    again = ingest.logs(logs("openai_v2_events", scenario), 2 * NOW_NS).calls
    assert {call.content for call in bare if call.kind == "llm"} == {"structure"}
    assert again == tuple(call for call in known if call.kind == "llm")

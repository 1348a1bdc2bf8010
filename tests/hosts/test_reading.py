"""How hosts read spans: what no rule asks for is not computed."""

from __future__ import annotations

from typing import Any

import pytest

from spanfuse_processor.config import Config
from spanfuse_processor.hosts.reading import normaliser_of, prices_of
from tests.otlp.fixtures import NOW_NS, chat, says

TURNS = [
    says("Book a table for two in Lisbon, please."),
    says("Done.", "assistant"),
    says("Now write a poem about rain."),
]


@pytest.mark.parametrize(
    ("sections", "measured"),
    [
        ({}, False),
        ({"detectors": {"safety_drift": {"mode": "warn"}}}, True),
        ({"policies": [{"team": "t", "rules": {"safety_drift": {"mode": "warn"}}}]}, True),
        ({"policies": [{"team": "t", "rules": {"safety_drift": {"threshold": 0.3}}}]}, False),
    ],
)
def test_user_turns_are_measured_where_a_rule_asks_for_it(sections: dict[str, Any], measured: bool) -> None:
    config = Config.model_validate(sections)
    (call,) = normaliser_of(config, prices_of(config.pricing)).batch([chat(input=TURNS)], NOW_NS).calls
    assert (call.drift is not None) == measured

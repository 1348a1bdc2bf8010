"""The policy in force, what is laid over the file, and what another one would change."""

from __future__ import annotations

from typing import Any

import pytest

from spanfuse_processor.api.console import DryRun
from spanfuse_processor.config.overlay import Overlay
from spanfuse_schemas import PolicyNotice
from tests.support.api import Api
from tests.support.loops import in_loop

SECTIONS = {"mode": "enforce", "detectors": {"repeat.prompt": {"count": 7}}}


@in_loop
async def test_the_policy_in_force_is_shown_as_guards_are_told_it(api: Api) -> None:
    status, body = await api("GET", "/v1/policy")
    assert status == 200
    assert PolicyNotice.model_validate(body) == api.host.policy


@in_loop
async def test_sections_are_laid_over_the_file_and_taken_away(api: Api) -> None:
    status, body = await api("PUT", "/v1/policy", json={"overlay": SECTIONS, "reason": "loops", "actor": "alice"})
    assert status == 200
    assert PolicyNotice.model_validate(body) == api.host.policy
    assert api.host.policy.policy.mode == "enforce"
    _, found = await api("GET", "/v1/policy/overlay")
    assert found["overlay"]["overlay"] == SECTIONS
    assert (found["overlay"]["actor"], found["overlay"]["reason"], found["overlay"]["in_force"]) == (
        "alice",
        "loops",
        True,
    )
    assert (await api("PUT", "/v1/policy", json={"overlay": {}}))[0] == 200
    assert await api("GET", "/v1/policy/overlay") == (200, {"overlay": None})


@pytest.mark.parametrize(
    ("overlay", "error"),
    [
        ({"mode": "shout"}, "overlay.mode: Input should be 'observe' or 'enforce'"),
        ({"detectors": {"repeat.prompt": {"count": 0}}}, "overlay.detectors.repeat.prompt"),
        ({"detectors": {"nothing": {}}}, "overlay.detectors.nothing: Extra inputs are not permitted"),
        ({"extensions": {}}, "overlay.extensions: Extra inputs are not permitted"),
    ],
)
def test_a_policy_that_is_none_is_refused_and_changes_nothing(overlay: dict[str, Any], error: str) -> None:
    @in_loop
    async def run() -> None:
        api = Api()
        for method, path in (("PUT", "/v1/policy"), ("POST", "/v1/policy/dry-run")):
            status, body = await api(method, path, json={"overlay": overlay})
            assert status == 400
            assert body["error"].startswith(error)
        assert api.host.policy.epoch == 1

    run()


@in_loop
async def test_a_dry_run_shows_what_would_change_and_changes_nothing(api: Api) -> None:
    status, body = await api("POST", "/v1/policy/dry-run", json={"overlay": SECTIONS, "since_ns": 5})
    assert status == 200
    assert DryRun.model_validate(body) == await api.host.dry_run(Overlay.model_validate(SECTIONS), 5)
    assert api.host.policy.epoch == 1

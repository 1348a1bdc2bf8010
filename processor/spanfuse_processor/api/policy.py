"""The policy in force, what is laid over the file, and what another one would change."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.responses import Response

from spanfuse_processor.api.asked import READER, Admin, Host, Operator
from spanfuse_processor.api.console import DryRun, OverlayNotice
from spanfuse_processor.api.shapes import Actor, Answer, Asked, Moment, Reason, whole, written
from spanfuse_processor.config.overlay import Overlay
from spanfuse_schemas import PolicyNotice

router: Final = APIRouter(tags=["policy"])


class PolicyChange(Asked):
    """Sections to lay over the configuration file."""

    overlay: Overlay
    """The sections, each as in the file; an empty one takes away what was laid over it."""
    reason: Reason = ""
    """Why."""
    actor: Actor = ""
    """Who orders it; with a token, its name is added."""


class Trial(Asked):
    """Sections to try over the configuration file."""

    overlay: Overlay
    """The sections, each as in the file."""
    since_ns: Moment = 0
    """Calls since then, nanoseconds since the Unix epoch. Default: all that are kept."""


class Overlaid(Answer):
    """What is laid over the configuration file."""

    overlay: OverlayNotice | None
    """The notice of it; null: nothing is."""


@router.get("/v1/policy", response_model=PolicyNotice, dependencies=[READER])
async def policy(host: Host) -> Response:
    """The policy in force, as Guards are told it."""
    return written(host.policy.to_json())


@router.put("/v1/policy", response_model=PolicyNotice)
async def put(host: Host, admin: Admin, change: PolicyChange) -> Response:
    """Lay sections over the configuration file, in place of any before, until what the file says changes."""
    return written((await host.put_policy(change.overlay, admin.actor(change.actor), change.reason)).to_json())


@router.get("/v1/policy/overlay", response_model=Overlaid, dependencies=[READER])
async def overlay(host: Host) -> Response:
    """What was laid over the configuration file last, by whom and why."""
    found = await host.overlay()
    if found is None:
        return whole({"overlay": None})
    sections = found.overlay.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return whole({"overlay": found.model_dump(mode="json", exclude={"overlay"}) | {"overlay": sections}})


@router.post("/v1/policy/dry-run", response_model=DryRun)
async def dry_run(host: Host, operator: Operator, trial: Trial) -> Response:
    """What the file with these sections over it would change about recent traffic, beside the policy in force; it stays."""
    return whole(await host.dry_run(trial.overlay, trial.since_ns))

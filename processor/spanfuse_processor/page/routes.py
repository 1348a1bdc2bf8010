"""All of the page, for `api.app.create_app(more=…)`."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

from spanfuse_processor.page import alerts, breakers, budgets, files, fleet, overview, sessions

PAGE: Final[tuple[APIRouter, ...]] = (
    overview.router,
    sessions.router,
    breakers.router,
    budgets.router,
    fleet.router,
    alerts.router,
    files.router,
)
"""Its routes."""

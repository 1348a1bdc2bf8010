"""Alerts: which there are, who has taken them on, and whether they arrive."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from spanfuse_processor.api.alerts import Alert, AlertPage, AlertQuery, Alerts, Delivery
from spanfuse_processor.api.asked import READER, Operator
from spanfuse_processor.api.shapes import Actor, Answer, Asked, Moment, whole
from spanfuse_processor.errors import SpanfuseError

router: Final = APIRouter(tags=["alerts"])

AlertId = Annotated[str, Path(max_length=1024, description="Its id.")]


class Acknowledgement(Asked):
    """Who takes an alert on."""

    actor: Actor = ""
    """Who; with a token, its name is added."""


class Snooze(Asked):
    """Until when nobody is told of an alert."""

    until_ns: Moment
    """Until then, nanoseconds since the Unix epoch; a time that is past ends it."""
    actor: Actor = ""
    """Who; with a token, its name is added."""


class AlertTest(Asked):
    """Whom to send a test to."""

    receiver: Annotated[str, Field(max_length=256)] = ""
    """Name of the receiver. Default: each."""
    actor: Actor = ""
    """Who; with a token, its name is added."""


class Deliveries(Answer):
    """What became of a test."""

    deliveries: list[Delivery]
    """Of each receiver."""


async def _alerts(request: Request) -> Alerts:
    alerts: Alerts | None = request.app.state.alerts
    if alerts is None:
        raise SpanfuseError("exporters.alerts is not set")
    return alerts


Watch = Annotated[Alerts, Depends(_alerts)]


@router.get("/v1/alerts", response_model=AlertPage, dependencies=[READER])
async def alerts(watch: Watch, query: Annotated[AlertQuery, Query()]) -> Response:
    """Alerts, newest first, page by page; 409: none are configured."""
    return whole(await watch.alerts(query))


@router.post("/v1/alerts/test", response_model=Deliveries)
async def test(operator: Operator, watch: Watch, asked: AlertTest) -> Response:
    """Send a test to a receiver, or to each, and wait for the answers."""
    found = await watch.test(asked.receiver, operator.actor(asked.actor))
    return whole({"deliveries": [one.model_dump(mode="json") for one in found]})


@router.post("/v1/alerts/{id}/ack", response_model=Alert)
async def ack(operator: Operator, watch: Watch, id: AlertId, asked: Acknowledgement) -> Response:
    """Take an alert on: nobody is reminded of it until it is over; 404: there is no such alert."""
    return _found(await watch.ack(id, operator.actor(asked.actor)))


@router.post("/v1/alerts/{id}/snooze", response_model=Alert)
async def snooze(operator: Operator, watch: Watch, id: AlertId, asked: Snooze) -> Response:
    """Tell nobody of an alert until a moment; 404: there is no such alert."""
    return _found(await watch.snooze(id, asked.until_ns, operator.actor(asked.actor)))


def _found(alert: Alert | None) -> Response:
    if alert is None:
        raise HTTPException(404, "no such alert")
    return whole(alert)

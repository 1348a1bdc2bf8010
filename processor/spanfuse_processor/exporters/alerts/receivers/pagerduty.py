"""PagerDuty: an event of the Events API v2. One alert is one incident, by its deduplication key."""

from __future__ import annotations

from typing import Final

import httpx
import orjson

from spanfuse_processor.config.alerts import PagerDuty
from spanfuse_processor.exporters.alerts.model import Notice
from spanfuse_processor.exporters.alerts.sender import Json, post
from spanfuse_processor.exporters.alerts.text import body, iso, line

MAX_SUMMARY: Final = 1_024
"""Characters of a summary; this is PagerDuty's limit."""
_ACTIONS: Final = {"firing": "trigger", "test": "trigger", "acknowledged": "acknowledge", "resolved": "resolve"}


class PagerDutySender:
    """See `sender.Sender`."""

    kind = "pagerduty"

    def __init__(self, settings: PagerDuty, client: httpx.AsyncClient, base_url: str) -> None:
        self._settings, self._client, self._base_url = settings, client, base_url

    async def send(self, notice: Notice) -> None:
        """Send it, once; a test opens an incident and resolves it at once."""
        key = self._settings.routing_key.get_secret_value()
        await post(self._client, self._settings.url, orjson.dumps(event(notice, key, self._base_url)))
        if notice.what == "test":
            over = event(Notice("resolved", notice.alert), key, self._base_url)
            await post(self._client, self._settings.url, orjson.dumps(over))


def event(notice: Notice, routing_key: str, base_url: str = "") -> Json:
    """The body of the request."""
    alert, said, action = notice.alert, body(notice, base_url), _ACTIONS[notice.what]
    found: Json = {"routing_key": routing_key, "event_action": action, "dedup_key": f"spanfuse-{alert.id}"}
    if action != "trigger":
        return found
    found["payload"] = {
        "summary": line(f"{said.title}: {said.message}", MAX_SUMMARY),
        "source": line(alert.key or "spanfuse", 255),
        "severity": alert.severity,
        "timestamp": iso(alert.last_ns),
        "component": line(alert.agent, 255),
        "group": line(alert.team, 255),
        "class": alert.rule,
        "custom_details": dict(said.facts) | ({"Release": said.command} if said.command else {}),
    }
    found["client"] = "spanfuse"
    if said.link:
        found["client_url"] = said.link
        found["links"] = [{"href": said.link, "text": "Open in spanfuse"}]
    return found

"""Any service: JSON by POST, signed."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable
from typing import Any, Final

import httpx
import orjson

from spanfuse_processor.config.alerts import Webhook
from spanfuse_processor.exporters.alerts.model import Alert, Notice
from spanfuse_processor.exporters.alerts.sender import Json, post
from spanfuse_processor.exporters.alerts.signals import BUDGET
from spanfuse_processor.exporters.alerts.text import NANO, iso, link

SIGNATURE: Final = "X-Spanfuse-Signature"
DELIVERY: Final = "X-Spanfuse-Delivery"
"""The same for each try of one message, so that one that comes twice is known."""


class WebhookSender:
    """See `sender.Sender`.

    Args:
        clock: now, seconds since the Unix epoch.
    """

    kind = "webhook"

    def __init__(
        self, settings: Webhook, client: httpx.AsyncClient, base_url: str, clock: Callable[[], float] = time.time
    ) -> None:
        self._settings, self._client, self._base_url, self._clock = settings, client, base_url, clock

    async def send(self, notice: Notice) -> None:
        """Send it, once."""
        content = orjson.dumps(payload(notice, self._base_url))
        headers = {name: value.get_secret_value() for name, value in self._settings.headers.items()}
        headers[DELIVERY] = f"{notice.alert.id}-{notice.what}-{notice.alert.last_ns}"
        if secret := self._settings.secret.get_secret_value():
            headers[SIGNATURE] = signature(secret, content, int(self._clock()))
        await post(self._client, self._settings.url.get_secret_value(), content, headers)


def signature(secret: str, content: bytes, at_s: int) -> str:
    """`t=SECONDS,v1=HEX`: HMAC-SHA256 over `SECONDS.BODY`, so that what was recorded cannot be sent again later."""
    found = hmac.new(secret.encode(), b"%d." % at_s + content, hashlib.sha256).hexdigest()
    return f"t={at_s},v1={found}"


def payload(notice: Notice, base_url: str = "") -> Json:
    """The body of the request."""
    alert = notice.alert
    return {
        "event_type": event_type(notice),
        "agent_id": alert.agent,
        "data": _data(alert),
        "timestamp": iso(alert.resolved_ns or alert.last_ns),
        "id": alert.id,
        "state": "resolved" if notice.what == "resolved" else "firing",
        "severity": alert.severity,
        "rule": alert.rule,
        "key": alert.key,
        "title": alert.title,
        "message": alert.message,
        "session_id": alert.session,
        "user_id": alert.user,
        "team": alert.team,
        "cost_usd": alert.cost_nano_usd / NANO,
        "acknowledged_by": alert.acknowledged_by,
        "release": alert.release,
        "link": link(alert, base_url),
    }


def event_type(notice: Notice) -> str:
    """What happened."""
    alert = notice.alert
    if notice.what == "test":
        return "alert.test"
    if notice.what == "acknowledged":
        return "alert.acknowledged"
    if alert.rule.startswith(BUDGET):
        return "budget.threshold_crossed" if notice.what == "firing" else "budget.resolved"
    if alert.action == "block":
        return "circuit_breaker.tripped" if notice.what == "firing" else "circuit_breaker.closed"
    return "alert.firing" if notice.what == "firing" else "alert.resolved"


def _data(alert: Alert) -> Json:
    scope, _, name = alert.key.partition(":")
    evidence = alert.evidence
    found: dict[str, Any] = {
        "scope": scope,
        "scope_id": name,
        "level": _level(alert),
        "action": alert.action,
        "mode": alert.mode,
    }
    if alert.rule.startswith(BUDGET):
        limit = alert.limit or None
        found |= {
            "threshold": round(evidence.threshold / limit, 4) if limit else None, "spent": evidence.value, "limit": limit,
            "percentage": round(100 * evidence.value / limit, 2) if limit else None, "unit": evidence.unit,
        }  # fmt: skip
    else:
        found |= evidence.model_dump(mode="json", exclude_defaults=True)
    return found | {"until": iso(alert.expires_at_ns) if alert.expires_at_ns else None}


def _level(alert: Alert) -> str:
    """`info`, `warning`, `urgent` or `critical`: of a budget by the share that is spent."""
    if not alert.rule.startswith(BUDGET) or not alert.limit:
        return alert.severity
    share = alert.evidence.threshold / alert.limit
    return "critical" if share >= 1 else "urgent" if share >= 0.9 else "warning" if share >= 0.8 else "info"

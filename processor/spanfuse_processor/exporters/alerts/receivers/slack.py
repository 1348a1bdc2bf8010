"""Slack: a message in Block Kit, by an incoming webhook."""

from __future__ import annotations

from typing import Any, Final

import httpx
import orjson

from spanfuse_processor.config.alerts import Slack
from spanfuse_processor.exporters.alerts.model import Notice
from spanfuse_processor.exporters.alerts.sender import Json, post
from spanfuse_processor.exporters.alerts.text import body, line

MAX_HEADER: Final = 150
"""Characters of a header; these and the others are Slack's limits."""
MAX_SECTION: Final = 3_000
MAX_FIELD: Final = 2_000
MAX_FIELDS: Final = 10
MAX_URL: Final = 3_000


class SlackSender:
    """See `sender.Sender`."""

    kind = "slack"

    def __init__(self, settings: Slack, client: httpx.AsyncClient, base_url: str) -> None:
        self._url, self._client, self._base_url = settings.url.get_secret_value(), client, base_url

    async def send(self, notice: Notice) -> None:
        """Send it, once."""
        await post(self._client, self._url, orjson.dumps(message(notice, self._base_url)))


def message(notice: Notice, base_url: str = "") -> Json:
    """The body of the request. Names stand in plain text, or escaped, so that none of them can mention anybody."""
    said = body(notice, base_url)
    mark = {"critical": "🔴", "warning": "🟠", "info": "🔵"}[notice.alert.severity]
    mark = "🟢" if notice.what == "resolved" else mark
    blocks: list[Json] = [{"type": "header", "text": _plain(f"{mark} {said.title}", MAX_HEADER)}]
    if said.message:
        blocks.append({"type": "section", "text": _plain(said.message, MAX_SECTION)})
    for at in range(0, len(said.facts), MAX_FIELDS):
        fields = [_plain(f"{name}: {value}", MAX_FIELD) for name, value in said.facts[at : at + MAX_FIELDS]]
        blocks.append({"type": "section", "fields": fields})
    if said.command:
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": f"Release: `{_code(said.command)}`"}})
    if said.link and len(said.link) <= MAX_URL:
        blocks.append(
            {"type": "actions", "elements": [{"type": "button", "text": _plain("Open", 75), "url": said.link}]}
        )
    blocks.append({"type": "context", "elements": [_plain(f"spanfuse alert {notice.alert.id}", MAX_FIELD)]})
    return {"text": _escaped(line(said.title, MAX_HEADER)), "blocks": blocks}


def _plain(text: str, most: int) -> dict[str, Any]:
    return {"type": "plain_text", "text": line(text, most) or "–", "emoji": True}


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _code(text: str) -> str:
    """Within backticks, which nothing can escape there."""
    return _escaped(line(text.replace("`", "'"), 1_000))

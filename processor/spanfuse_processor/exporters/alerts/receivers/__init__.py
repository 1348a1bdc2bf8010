"""The ways of telling somebody, one module each."""

from __future__ import annotations

import httpx

from spanfuse_processor.config.alerts import Alerts, PagerDuty, Slack, Smtp, Webhook
from spanfuse_processor.exporters.alerts.receivers.log import LogSender
from spanfuse_processor.exporters.alerts.receivers.pagerduty import PagerDutySender
from spanfuse_processor.exporters.alerts.receivers.slack import SlackSender
from spanfuse_processor.exporters.alerts.receivers.smtp import SmtpSender
from spanfuse_processor.exporters.alerts.receivers.webhook import WebhookSender
from spanfuse_processor.exporters.alerts.sender import Sender


def senders(config: Alerts, client: httpx.AsyncClient) -> dict[str, Sender]:
    """Name of the receiver → what tells it."""
    found: dict[str, Sender] = {}
    for name, settings in config.receivers.named().items():
        match settings:
            case Slack():
                found[name] = SlackSender(settings, client, config.base_url)
            case PagerDuty():
                found[name] = PagerDutySender(settings, client, config.base_url)
            case Webhook():
                found[name] = WebhookSender(settings, client, config.base_url)
            case Smtp():
                found[name] = SmtpSender(settings, config.base_url, config.timeout_s)
            case _:
                found[name] = LogSender(name)
    return found

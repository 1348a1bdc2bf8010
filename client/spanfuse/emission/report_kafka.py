"""Reports straight to Kafka."""

from __future__ import annotations

from typing import Final

from spanfuse.emission.destination import Outcome
from spanfuse.emission.kafka_sender import KafkaSender
from spanfuse_schemas.topics import OTLP_LOGS

CLOSE_S: Final = 1.0
"""How long disconnecting may take, seconds."""


class KafkaTransport:
    """Writes them to `otlp_logs`.

    Args:
        brokers: as of `KafkaSender`.
    """

    def __init__(self, brokers: str | None) -> None:
        self._sender = KafkaSender(brokers)
        self._sender.connect()

    def send(self, body: bytes, timeout_s: float) -> Outcome:
        """Send one request."""
        return "taken" if all(self._sender.send(OTLP_LOGS, [(None, body)], timeout_s)) else "away"

    def close(self) -> None:
        """Disconnect."""
        self._sender.close(CLOSE_S)

"""The Faust app: every setting that differs from Faust's own, and why."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import faust
from faust.auth import SASLCredentials, SSLCredentials
from faust.types import AgentT
from yarl import URL

from spanfuse_processor.hosts.kafka import password_of, ssl_context
from spanfuse_processor.hosts.topics import APP_ID

if TYPE_CHECKING:
    from spanfuse_processor.config import KafkaSettings

SESSION_TIMEOUT_S: Final = 10.0
"""How long a worker may be silent until its partitions go to others: what a kill -9 costs, seconds."""

HEARTBEAT_S: Final = 3.0
"""How often a worker says that it lives, seconds."""


class StreamApp(faust.App):
    """An app that tells of a failing agent; Faust would restart it, and go on behind the message."""

    tell: Callable[[BaseException], None]

    async def _on_agent_error(self, agent: AgentT[Any], exc: BaseException) -> None:
        if not isinstance(exc, asyncio.CancelledError):
            self.tell(exc)
        await super()._on_agent_error(agent, exc)


def new_app(settings: KafkaSettings, partitions: int, tell: Callable[[BaseException], None]) -> faust.App:
    """The app of one worker.

    Args:
        partitions: number of partitions of `spanfuse.calls`, and so of the changelogs.
        tell: told of what makes an agent fail.
    """
    app = StreamApp(
        APP_ID,
        broker=[URL(f"kafka://{broker.strip()}") for broker in settings.brokers.split(",")],
        broker_credentials=credentials(settings),
        broker_client_id=settings.client_id,
        broker_session_timeout=SESSION_TIMEOUT_S,
        broker_heartbeat_interval=HEARTBEAT_S,
        broker_request_timeout=40.0,
        store="memory://",
        # Faust insists on a directory whose parent exists; the memory store writes nothing there.
        datadir=tempfile.gettempdir(),
        topic_partitions=partitions,
        topic_replication_factor=settings.replication_factor,
        topic_allow_declare=False,  # `spanfuse topics create` makes them, with the right settings
        topic_disable_leader=True,  # else a KeyError at the start
        table_standby_replicas=0,  # a memory store forgets its standbys at every rebalance
        consumer_auto_offset_reset="earliest",  # recovery can hang with latest
        # Packed messages are large: few are enough to keep the agent busy, and they are what a worker holds in memory.
        stream_buffer_maxsize=64,
        consumer_max_fetch_size=4 * 1024 * 1024,
        stream_recovery_delay=0.0,
        web_enabled=False,
        autodiscover=False,
    )
    app.tell = tell
    return app


def member_of(app: faust.App) -> str:
    """The worker's id in the consumer group; empty while it joins for the first time, or anew."""
    client = getattr(app.consumer._thread, "_consumer", None)  # type: ignore[attr-defined]
    coordinator = getattr(client, "_coordinator", None)
    return str(coordinator.member_id) if coordinator is not None else ""


def credentials(settings: KafkaSettings) -> Any:
    """Faust's form of TLS and SASL; none for plain text."""
    context = ssl_context(settings)
    if settings.security_protocol.startswith("SASL"):
        return SASLCredentials(
            username=settings.sasl_username,
            password=password_of(settings),
            mechanism=settings.sasl_mechanism,
            ssl_context=context,
        )
    return SSLCredentials(context) if context is not None else None

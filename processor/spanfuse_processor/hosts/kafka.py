"""How the hosts reach Kafka: one set of settings, turned into what aiokafka's clients take."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from spanfuse_processor.errors import ConfigError, UnavailableError

if TYPE_CHECKING:
    from spanfuse_processor.config import KafkaSettings

START_TIMEOUT_S: Final = 20.0
"""How long a client may take to find the brokers."""
MAX_REQUEST_BYTES: Final = 15 * 1024 * 1024
"""Largest produce request; below the topics' `max.message.bytes`, which counts the batch's header too."""


def ssl_context(settings: KafkaSettings) -> ssl.SSLContext | None:
    """The TLS side of the connection; none where the protocol has no TLS.

    Raises:
        ConfigError: if a certificate or key cannot be read.
    """
    if not settings.security_protocol.endswith("SSL"):
        return None
    try:
        context = ssl.create_default_context(cafile=settings.ssl_cafile or None)
        if settings.ssl_certfile:
            context.load_cert_chain(settings.ssl_certfile, settings.ssl_keyfile or None)
    except OSError as error:
        raise ConfigError([f"receivers.kafka: TLS files cannot be used: {error}"]) from error
    return context


def client_options(settings: KafkaSettings) -> dict[str, Any]:
    """Keyword arguments that every aiokafka client takes: brokers, TLS, SASL."""
    options: dict[str, Any] = {
        "bootstrap_servers": [broker.strip() for broker in settings.brokers.split(",")],
        "client_id": settings.client_id,
        "security_protocol": settings.security_protocol,
        "ssl_context": ssl_context(settings),
    }
    if settings.security_protocol.startswith("SASL"):
        options |= {
            "sasl_mechanism": settings.sasl_mechanism,
            "sasl_plain_username": settings.sasl_username,
            "sasl_plain_password": password_of(settings),
        }
    return options


def password_of(settings: KafkaSettings) -> str:
    """The SASL password in clear, for the client library only."""
    secret = settings.sasl_password
    return secret.get_secret_value() if secret is not None else ""


async def start_client(client: Any, settings: KafkaSettings) -> None:
    """Start an aiokafka client.

    Raises:
        UnavailableError: if no broker answers in time, or none lets this client in.
    """
    try:
        await asyncio.wait_for(client.start(), START_TIMEOUT_S)
    except (KafkaError, OSError, TimeoutError) as error:
        await _abandon(client)
        detail = str(error) or type(error).__name__
        raise UnavailableError(f"Kafka at {settings.brokers} does not answer: {detail}") from error


async def _abandon(client: Any) -> None:
    """Close what a failed start left open."""
    close = getattr(client, "stop", None) or client.close
    with contextlib.suppress(KafkaError, OSError, TimeoutError, AttributeError):
        await asyncio.wait_for(close(), 2)


async def within(timeout_s: float, work: Coroutine[Any, Any, None]) -> bool:
    """Do something for a while, such as closing a client whose brokers may be away; what is late is cancelled, and not
    waited for, since client libraries swallow that too.

    Returns:
        Whether it was done.

    Raises:
        Exception: what the work raises.
    """
    task = asyncio.ensure_future(work)
    done, _ = await asyncio.wait([task], timeout=timeout_s)
    if done:
        task.result()
    else:
        task.add_done_callback(lambda late: late.cancelled() or late.exception())
        task.cancel()
    return bool(done)


def new_producer(settings: KafkaSettings, *, linger_ms: int) -> AIOKafkaProducer:
    """A producer that keeps the order of each partition and repeats nothing, through retries and broker outages.

    Args:
        linger_ms: how long a record may wait for company, milliseconds.
    """
    return AIOKafkaProducer(
        **client_options(settings),
        enable_idempotence=True,
        acks="all",
        linger_ms=linger_ms,
        max_batch_size=512 * 1024,
        max_request_size=MAX_REQUEST_BYTES,
        request_timeout_ms=30_000,
    )

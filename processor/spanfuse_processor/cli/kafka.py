"""The Kafka settings that commands use: those of a configuration file, or the defaults with other brokers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from spanfuse_processor.config import KafkaSettings, load_config
from spanfuse_processor.errors import ConfigError

if TYPE_CHECKING:
    from spanfuse_schemas import Decision

T = TypeVar("T")


def kafka_settings(config_path: Path | None, brokers: str | None) -> KafkaSettings:
    """The settings of the file's `receivers.kafka`, with `brokers` in place of its brokers.

    Raises:
        ConfigError: if the file cannot be used, or names no Kafka and there are no brokers.
    """
    settings = load_config(config_path).receivers.kafka if config_path is not None else None
    if brokers is not None:
        return _with_brokers(settings or KafkaSettings(), brokers)
    if settings is None:
        raise ConfigError([f"{config_path}: receivers.kafka: missing; needed here (or --brokers)"])
    return settings


def _with_brokers(settings: KafkaSettings, brokers: str) -> KafkaSettings:
    try:
        return KafkaSettings.model_validate({**settings.model_dump(), "brokers": brokers})
    except ValidationError as error:
        raise ConfigError([f"--brokers: {error.errors()[0]['msg'].removeprefix('Value error, ')}"]) from None


def reset_over_kafka(settings: KafkaSettings, key: str, actor: str, timeout_s: float) -> Decision:
    """Close a breaker in a stream deployment."""
    from spanfuse_processor.hosts.reset import reset_breaker

    return run_errand(reset_breaker(settings, key, actor, timeout_s))


def run_errand(errand: Coroutine[Any, Any, T]) -> T:
    """Run one errand to Kafka. What goes wrong is told by the command, so the client library need not log it too."""
    library = logging.getLogger("aiokafka")
    level = library.level
    library.setLevel(logging.CRITICAL)
    try:
        return asyncio.run(errand)
    finally:
        library.setLevel(level)

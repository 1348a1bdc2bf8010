"""Creates the topics, and says where those that exist differ from what spanfuse needs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from spanfuse_processor.errors import UnavailableError
from spanfuse_processor.hosts.kafka import client_options, start_client
from spanfuse_schemas.topics import TOPICS, Topic

if TYPE_CHECKING:
    from spanfuse_processor.config import KafkaSettings

APP_ID: Final = "spanfuse"
"""Consumer group of the workers, and prefix of their changelog topics."""
SESSIONS_CHANGELOG: Final = f"{APP_ID}-sessions-changelog"
"""Changelog of the table `sessions`."""
SCOPES_CHANGELOG: Final = f"{APP_ID}-scopes-changelog"
"""Changelog of the table `scopes`."""
VISIBLE_TIMEOUT_S: Final = 10.0
"""How long new topics may take until every broker knows them, seconds."""
_CONFIG: Final = {
    "cleanup.policy": "compact",
    "delete.retention.ms": str(24 * 3600 * 1000),
    # A state is written every second that it is active: small segments and early cleaning keep what a restarted worker has to
    # read close to what is alive.
    "segment.bytes": str(64 * 1024 * 1024),
    "segment.ms": str(3600 * 1000),
    "min.cleanable.dirty.ratio": "0.2",
}

CHANGELOGS: Final = (
    Topic(
        name=SESSIONS_CHANGELOG,
        key="session",
        value="last applied offset, last call, epoch, then the session's snapshot; empty: forgotten",
        config=_CONFIG,
    ),
    Topic(
        name=SCOPES_CHANGELOG,
        key="scope",
        value="last applied offset, last call, epoch, then the scope's snapshot; empty: forgotten",
        config=_CONFIG,
    ),
)
"""Topics of the stream host's own; they have as many partitions as `spanfuse.calls` and `spanfuse.charges`, which are equal."""
ALL: Final = tuple(topic.name for topic in (*TOPICS, *CHANGELOGS))
"""Names of all topics."""


@dataclass(frozen=True, slots=True)
class TopicReport:
    """What became of one topic."""

    name: str
    """Name of the topic."""
    created: bool
    """It did not exist before."""
    differences: tuple[str, ...] = ()
    """Where an existing topic is not as spanfuse needs it, one sentence each. Nothing is corrected: partitions carry
    state, and retention may be the operator's choice."""


async def create_topics(settings: KafkaSettings) -> list[TopicReport]:
    """Create the topics that do not exist; safe to repeat.

    Returns:
        One report per topic, in the order of the table.

    Raises:
        UnavailableError: if Kafka does not answer or refuses.
    """
    admin = AIOKafkaAdminClient(**client_options(settings), request_timeout_ms=20_000)
    await start_client(admin, settings)
    try:
        return await _create(admin, settings)
    except KafkaError as error:
        raise UnavailableError(f"Kafka refused to create the topics: {error}") from error
    finally:
        await admin.close()


async def partitions_of(settings: KafkaSettings, wanted: Iterable[str] = ALL) -> dict[str, int]:
    """Number of partitions of each of the topics that exists.

    Args:
        wanted: names of topics.

    Raises:
        UnavailableError: if Kafka does not answer or refuses.
    """
    admin = AIOKafkaAdminClient(**client_options(settings), request_timeout_ms=20_000)
    await start_client(admin, settings)
    try:
        names = {*wanted} & set(await admin.list_topics())
        return {t["topic"]: len(t["partitions"]) for t in await admin.describe_topics(sorted(names))} if names else {}
    except KafkaError as error:
        raise UnavailableError(f"Kafka refused to describe the topics: {error}") from error
    finally:
        await admin.close()


async def _create(admin: AIOKafkaAdminClient, settings: KafkaSettings) -> list[TopicReport]:
    wanted = {topic.name: topic for topic in (*TOPICS, *CHANGELOGS)}
    existing = set(await admin.list_topics())
    missing = [topic for name, topic in wanted.items() if name not in existing]
    raced = await _create_missing(admin, missing, settings)
    created = {topic.name for topic in missing} - raced
    await _visible(admin, created)
    old = [name for name in wanted if name not in created]
    differences = await _differences(admin, [wanted[name] for name in old], settings) if old else {}
    return [TopicReport(name, name in created, differences.get(name, ())) for name in wanted]


async def _create_missing(admin: AIOKafkaAdminClient, missing: list[Topic], settings: KafkaSettings) -> set[str]:
    """Create; give the names that somebody else created meanwhile."""
    if not missing:
        return set()
    response = await admin.create_topics(
        [
            NewTopic(
                name=topic.name,
                num_partitions=topic.partitions or settings.partitions,
                replication_factor=settings.replication_factor,
                topic_configs=topic.config,
            )
            for topic in missing
        ]
    )
    raced = set()
    for name, code, *detail in response.topic_errors:
        if code == TopicAlreadyExistsError.errno:
            raced.add(name)
        elif code:
            raise UnavailableError(f"Kafka refused to create topic {name}: {detail[0] or for_code(code).__name__}")
    return raced


async def _visible(admin: AIOKafkaAdminClient, names: set[str]) -> None:
    """Wait for a while until the brokers know all of topics that were just made: before that they describe them as empty."""
    with suppress(TimeoutError):
        async with asyncio.timeout(VISIBLE_TIMEOUT_S):
            while names:
                if all(topic["partitions"] for topic in await admin.describe_topics(sorted(names))):
                    return
                await asyncio.sleep(0.05)


async def _differences(
    admin: AIOKafkaAdminClient, topics: list[Topic], settings: KafkaSettings
) -> dict[str, tuple[str, ...]]:
    partitions = {t["topic"]: len(t["partitions"]) for t in await admin.describe_topics([t.name for t in topics])}
    configs = await _configs(admin, topics)
    return {topic.name: tuple(_compare(topic, partitions, configs, settings)) for topic in topics}


async def _configs(admin: AIOKafkaAdminClient, topics: list[Topic]) -> dict[str, dict[str, str]]:
    """Present settings of the topics, by topic."""
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic.name) for topic in topics]
    found: dict[str, dict[str, str]] = {}
    for response in await admin.describe_configs(resources):
        for _, _, _, name, entries in response.resources:
            found[name] = {entry[0]: entry[1] for entry in entries}
    return found


def _compare(
    topic: Topic, partitions: dict[str, int], configs: dict[str, dict[str, str]], settings: KafkaSettings
) -> Iterable[str]:
    wanted: Any = topic.partitions or settings.partitions
    if partitions.get(topic.name) != wanted:
        yield f"{partitions.get(topic.name)} partitions instead of {wanted}"
    for key, value in topic.config.items():
        present = configs.get(topic.name, {}).get(key)
        if present != value:
            yield f"{key} is {present} instead of {value}"

"""`python -m deploy.kafka.generator`: write topics.md from the tables of topics."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from spanfuse_processor.hosts.topics import CHANGELOGS
from spanfuse_schemas.topics import TOPICS, Topic

FILE: Final = Path(__file__).parent / "topics.md"
_HEAD: Final = """\
# Topics

Made from the code by `make topics`; do not edit. `spanfuse topics create` makes them so, with the partitions and the
replication factor of `receivers.kafka`, and says where those that exist differ. Settings have Kafka's names and units; for what
is not named the broker's default holds. Brokers need `auto.create.topics.enable=false`, or whoever comes first makes a topic
with the wrong ones.

| topic | partitions | key | value | settings |
|---|---|---|---|---|
"""


def page() -> str:
    """The page's text."""
    return _HEAD + "".join(f"{_row(topic)}\n" for topic in (*TOPICS, *CHANGELOGS))


def _row(topic: Topic) -> str:
    settings = "<br>".join(f"`{name}={value}`" for name, value in topic.config.items())
    partitions = topic.partitions or "`receivers.kafka.partitions`"
    return f"| `{topic.name}` | {partitions} | {topic.key} | {topic.value} | {settings} |"


if __name__ == "__main__":
    FILE.write_text(page())

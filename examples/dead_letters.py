"""`python dead_letters.py BROKERS FOLDER`: write what could not be read to files, one each, and say why it could not.

They can be looked at with `spanfuse doctor FOLDER` and `spanfuse inspect FOLDER`, and sent to a receiver again.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from aiokafka import AIOKafkaConsumer

TOPIC = "spanfuse.dead-letter"
QUIET_MS = 2000


async def main(brokers: str, folder: Path) -> None:
    """Read the topic to its present end, in no consumer group.

    Args:
        brokers: HOST:PORT, separated by commas.
        folder: where to.
    """
    settings = {"group_id": None, "auto_offset_reset": "earliest", "max_partition_fetch_bytes": 16 * 1024 * 1024}
    async with AIOKafkaConsumer(TOPIC, bootstrap_servers=brokers, **settings) as consumer:
        while batch := await consumer.getmany(timeout_ms=QUIET_MS):
            for letter in (record for records in batch.values() for record in records):
                told = {name: value.decode() for name, value in letter.headers}
                ending = "json" if letter.value[:1] in (b"{", b"[") else "bin"
                name = f"{told['topic']}-{told['partition']}-{told['offset']}.{ending}"
                (folder / name).write_bytes(letter.value)
                print(f"{name}  {len(letter.value)} bytes  {told['reason']}")


if __name__ == "__main__":
    brokers, folder = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    asyncio.run(main(brokers, Path(folder)))

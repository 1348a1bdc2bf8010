"""Running hosts read their configuration again on SIGHUP, and every Guard goes by it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from spanfuse import Guard
from spanfuse.tools.denied import ToolDenied
from spanfuse_schemas import POLICY_KEY, PolicyNotice
from spanfuse_schemas.topics import CONTROL
from tests.client.waiting import wait_until
from tests.services.kafka_service import KafkaService
from tests.support.hosts import Deployment, embedded, stream
from tests.support.stream import fresh_topics, read_topic

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

RULES: dict[str, Any] = {
    "service": {"mode": "enforce"},
    "tools": {"rules": [{"tool": "bash", "action": "deny", "reason": "no shells"}]},
}


@contextmanager
def following(host: Deployment) -> Iterator[Guard]:
    """A Guard that knows what the host has published."""
    guard = Guard(host.guard)
    try:
        assert guard.wait_ready(60)
        yield guard
    finally:
        guard.close()


def permitted(guard: Guard) -> bool:
    """Whether a tool may be executed."""
    try:
        with guard.tool("bash", {"command": "ls"}):
            return True
    except ToolDenied:
        return False


def reload(host: Deployment, text: str | None = None, **sections: Any) -> None:
    """Change the file, and tell the process."""
    before = yaml.safe_load(host.config.read_text())
    host.config.write_text(yaml.safe_dump(before | sections) if text is None else text)
    host.process.send_signal(signal.SIGHUP)


def goes_by_its_file(host: Deployment) -> None:
    """Rules on tools change for a running agent; a file with mistakes changes nothing."""
    good = host.config.read_text()
    with following(host) as guard:
        wait_until(lambda: not permitted(guard))
        reload(host, tools={"default": "allow"})
        wait_until(lambda: permitted(guard))
        reload(host, "tools: {defalt: deny}\n")
        wait_until(lambda: any("tools.defalt: unknown key" in line for line in host.lines))
        assert permitted(guard)
        reload(host, good)
        wait_until(lambda: not permitted(guard))
    assert any("the configuration has mistakes; the one before stays in force" in line for line in host.lines)
    assert sum("was read again: tools changed" in line for line in host.lines) == 2


def test_the_embedded_host_goes_by_its_file_again_on_a_signal(tmp_path: Path) -> None:
    with embedded(tmp_path, RULES) as host:
        goes_by_its_file(host)


def test_a_worker_goes_by_its_file_again_on_a_signal(kafka: KafkaService, tmp_path: Path) -> None:
    """Its policies stand in the control topic, under one key, with an epoch that grows."""
    asyncio.run(fresh_topics(kafka.brokers))
    with stream(tmp_path, RULES, kafka.brokers) as host:
        goes_by_its_file(host)
        records = asyncio.run(read_topic(kafka.brokers, CONTROL))
    notices = [PolicyNotice.from_json(r.value) for r in records if r.key == POLICY_KEY.encode()]
    assert [len(notice.policy.tools) for notice in notices] == [1, 0, 1]
    assert sorted(notice.epoch for notice in notices) == [notice.epoch for notice in notices]
    assert len({notice.epoch for notice in notices}) == 3

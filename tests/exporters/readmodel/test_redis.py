"""What only a read model in Redis or Valkey can meet: messages that come again, a topic made anew, a cluster, bounds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest

from spanfuse_processor.errors import ConfigError, UnavailableError
from spanfuse_processor.exporters.readmodel.facts import Facts, Owner, Sums
from spanfuse_processor.exporters.readmodel.model import SessionQuery, SessionRow, StepRow
from spanfuse_processor.exporters.readmodel.redis import RedisReadModel
from spanfuse_processor.exporters.readmodel.redis_link import RedisLink
from spanfuse_processor.exporters.readmodel.redis_writer import SLACK_MS, Latest, RedisWriter
from spanfuse_schemas.topics import partition_of
from tests.services.redis_cluster import cluster_of_one
from tests.services.redis_server import RedisService
from tests.support.loops import in_loop

NOW_NS = 1_750_000_200 * 10**9
NOW_MS = NOW_NS // 10**6
MINUTE = NOW_NS // 60 // 10**9
PARTITIONS = 4


@asynccontextmanager
async def opened(url: str, more: str = "") -> AsyncIterator[tuple[RedisLink, RedisWriter, RedisReadModel]]:
    link = RedisLink(f"{url}?tenant={uuid4().hex}{more}", PARTITIONS)
    yield link, RedisWriter(link), RedisReadModel(link, lambda: NOW_NS, fresh_s=0)
    await link.close()


def facts(session: str = "s", number: int = 1) -> Facts:
    step = StepRow(at_ns=NOW_NS + number, span_id=f"{number:016x}")
    return Facts(
        steps=[(session, step)],
        owners={session: Owner("research", "u", "", "")},
        minutes={("global", "*", MINUTE): Sums(1, 10, 100, 0)},
    )


def row_of(session: str, last_ns: int = NOW_NS) -> Latest:
    return Latest(partition_of(session, PARTITIONS), b"state", last_ns, SessionRow(session=session, last_ns=last_ns))


@pytest.mark.integration
@in_loop
async def test_a_message_that_is_delivered_again_changes_nothing_and_later_ones_do(redis_service: RedisService) -> None:
    async with opened(redis_service.url) as (_, writer, model):
        place = partition_of("s", PARTITIONS)
        first, second = (writer.message(place, "calls", n, NOW_MS + n, facts(number=n)) for n in (4, 5))
        assert await writer.send([first, second]) == [1, 1]
        assert await writer.send([first, second, first]) == [0, 0, 0]
        assert len(await model.timeline("s")) == 2
        (minute,) = await model.series("global", "*", 1)
        assert (minute.calls, minute.cost_nano_usd, minute.tokens) == (2, 20, 200)


@pytest.mark.integration
@in_loop
async def test_calls_and_charges_of_a_partition_have_offsets_of_their_own(redis_service: RedisService) -> None:
    async with opened(redis_service.url) as (_, writer, _model):
        place = partition_of("s", PARTITIONS)
        commands = [writer.message(place, source, 7, NOW_MS, facts()) for source in ("calls", "charges")]
        assert await writer.send(commands) == [1, 1]


@pytest.mark.integration
@in_loop
async def test_a_topic_that_was_made_anew_begins_anew(redis_service: RedisService) -> None:
    """Its offsets come again, and much later: that is no delivery for the second time."""
    async with opened(redis_service.url) as (_, writer, model):
        place = partition_of("s", PARTITIONS)
        await writer.send([writer.message(place, "calls", 900, NOW_MS, facts())])
        again = writer.message(place, "calls", 0, NOW_MS + SLACK_MS, facts(number=2))
        anew = writer.message(place, "calls", 0, NOW_MS + SLACK_MS + 1, facts(number=3))
        assert await writer.send([again, anew]) == [0, 1]
        assert len(await model.timeline("s")) == 2


@pytest.mark.integration
@in_loop
async def test_what_is_beyond_the_bound_goes_the_oldest_first_and_everything_ends(
    redis_service: RedisService, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(redis_service.url) as (link, writer, model):
        monkeypatch.setattr(writer, "_sessions", 2)
        names = [f"s{n}" for n in range(40)]
        commands = [c for n, s in enumerate(names) for c in writer.session(s, row_of(s, NOW_NS - n * 10**9))]
        await writer.send([*commands, *writer.bounds(range(PARTITIONS), ("agent",), NOW_NS)])
        kept = [row.session for row in (await model.sessions(SessionQuery())).sessions]
        by_place = {p: [s for s in names if partition_of(s, PARTITIONS) == p][:2] for p in range(PARTITIONS)}
        assert sorted(kept) == sorted(s for some in by_place.values() for s in some)
        await writer.send([writer.message(0, "calls", 1, NOW_MS, facts())])
        endless = [
            key
            async for key in link.client.scan_iter(match=f"spanfuse:{{{link.tenant}*")
            if await link.client.ttl(key) < 0
        ]
        assert endless == []


@pytest.mark.integration
@in_loop
async def test_lists_follow_what_changes(redis_service: RedisService) -> None:
    """What workers write shows, and what is over goes, without all being read again."""
    async with opened(redis_service.url) as (_, writer, model):
        await writer.send([*writer.session("old", row_of("old")), writer.changed(["old"])])
        assert await model.changed() == []
        for name in ("new", "newer"):
            await writer.send([*writer.session(name, row_of(name)), writer.changed([name])])
        assert await model.changed() == ["new", "newer"]
        over = Latest(partition_of("old", PARTITIONS), b"")
        await writer.send([*writer.session("old", over), writer.changed(["old"])])
        assert [row.session for row in (await model.sessions(SessionQuery())).sessions] == ["newer", "new"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    with cluster_of_one() as url:
        yield url


@pytest.mark.integration
@in_loop
async def test_on_a_cluster_what_one_partition_tells_lies_in_one_slot(cluster: str) -> None:
    async with opened(cluster, "&cluster=1") as (_, writer, model):
        names = [f"s{n}" for n in range(20)]
        for offset, name in enumerate(names):
            place = partition_of(name, PARTITIONS)
            commands = [
                writer.message(place, "calls", offset, NOW_MS, facts(name)),
                *writer.session(name, row_of(name)),
            ]
            assert not [a for a in await writer.send([*commands, writer.changed([name])]) if isinstance(a, Exception)]
        assert len((await model.sessions(SessionQuery())).sessions) == 20
        assert [len(await model.timeline(name)) for name in names] == [1] * 20
        assert [row.calls for row in await model.series("global", "*", 1)] == [20]


@in_loop
async def test_a_redis_that_does_not_answer_is_an_error_of_one_line() -> None:
    async with opened("redis://127.0.0.1:1/0", "&timeout_ms=200") as (_, writer, model):
        with pytest.raises(UnavailableError, match=r"the read model in Redis at 127\.0\.0\.1"):
            await model.session("s")
        with pytest.raises(UnavailableError):
            await writer.send([writer.message(0, "calls", 1, NOW_MS, facts())])


@pytest.mark.parametrize("address", ["sqlite:///x", "redis://h/0?tenant={x}", "redis://h/0?tenants=x", "h:6379"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match=r"extensions\.readmodel\.address"):
        RedisLink(address, 4)

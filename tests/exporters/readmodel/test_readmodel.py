"""What both stores of the read model promise: that of the embedded host and that of workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from spanfuse_processor.errors import QueryError
from spanfuse_processor.exporters.readmodel.facts import Facts, Owner, Sums
from spanfuse_processor.exporters.readmodel.model import (
    MAX_STEPS,
    DetectionQuery,
    ReadModel,
    SessionQuery,
    SessionRow,
    StepRow,
)
from spanfuse_processor.exporters.readmodel.redis import RedisReadModel
from spanfuse_processor.exporters.readmodel.redis_link import RedisLink
from spanfuse_processor.exporters.readmodel.redis_writer import Latest, RedisWriter
from spanfuse_processor.hosts.store import Changes, Store
from spanfuse_schemas import Decision, Detection
from spanfuse_schemas.topics import partition_of
from tests.services.redis_server import RedisService

NOW_NS = 1_750_000_200 * 10**9
MINUTE = NOW_NS // 60 // 10**9
PARTITIONS = 4


class Written:
    """A store of the read model, and a way to write it."""

    model: ReadModel

    async def write(self, facts: Facts, at: str = "s") -> None:
        """Take in what a batch adds.

        Args:
            at: session or key, by which workers place it.
        """


class InSqlite(Written):
    def __init__(self, path: Path) -> None:
        self.store = Store(str(path))
        self.store.shown._clock = lambda: NOW_NS
        self.model = self.store.shown

    async def write(self, facts: Facts, at: str = "s") -> None:
        self.store.commit(Changes(facts=facts, detections=[found for found, _ in facts.found]))


class InRedis(Written):
    def __init__(self, url: str) -> None:
        self.link = RedisLink(f"{url}?tenant={uuid4().hex}", PARTITIONS)
        self.model = RedisReadModel(self.link, lambda: NOW_NS, fresh_s=0)
        self.writer = RedisWriter(self.link)
        self.offset = -1

    async def write(self, facts: Facts, at: str = "s") -> None:
        self.offset += 1
        place = partition_of(at, PARTITIONS)
        commands = [self.writer.message(place, "calls", self.offset, NOW_NS // 10**6, facts)]
        for row in facts.rows:
            latest = Latest(partition_of(row.session, PARTITIONS), b"state", row.last_ns, row)
            commands += self.writer.session(row.session, latest)
        if facts.rows or facts.found or facts.gone:
            names = [row.session for row in facts.rows] + [d.session for d, _ in facts.found] + facts.gone
            commands.append(self.writer.changed(names))
        assert not [a for a in await self.writer.send(commands) if isinstance(a, Exception)]


Opened = Callable[[], AbstractAsyncContextManager[Written]]


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.integration)])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    """Opens a store within the running event loop."""

    @asynccontextmanager
    async def in_sqlite() -> AsyncIterator[Written]:
        written = InSqlite(tmp_path / "spanfuse.db")
        yield written
        written.store.close()

    @asynccontextmanager
    async def in_redis() -> AsyncIterator[Written]:
        service: RedisService = request.getfixturevalue("redis_service")
        written = InRedis(service.url)
        yield written
        await written.link.close()

    return in_sqlite if request.param == "sqlite" else in_redis


def stored(test: Callable[[Written], Awaitable[None]]) -> Callable[[Opened], None]:
    """A test of both stores."""

    def run(opened: Opened) -> None:
        async def within() -> None:
            async with opened() as written:
                await test(written)

        asyncio.run(within())

    run.__name__, run.__doc__ = getattr(test, "__name__", ""), test.__doc__
    return run


def row(session: str, last: int = 0, **fields: Any) -> SessionRow:
    return SessionRow(session=session, last_ns=NOW_NS - 10**12 + last * 10**9, **fields)


def step(number: int, identity: int = 0, **fields: Any) -> StepRow:
    return StepRow(at_ns=NOW_NS + number, span_id=f"{number:016x}", loop=identity, **fields)


def detection(number: int, **fields: Any) -> Detection:
    about = {
        "rule": "cycle",
        "action": "block",
        "mode": "block",
        "session": "s",
        "call": number,
        "message": "m",
        **fields,
    }
    return Detection(id=f"{number:04}", at_ns=NOW_NS + number, **about)


async def names(written: Written, **asked: Any) -> list[str]:
    return [row.session for row in (await written.model.sessions(SessionQuery(**asked))).sessions]


@stored
async def test_a_session_is_shown_as_it_was_written_last(written: Written) -> None:
    """Whose it is stays known where a batch does not say so."""
    owner = Owner("research", "u-7", "", "gpt-4o")
    await written.write(Facts(rows=[row("s", calls=1)], owners={"s": owner}))
    await written.write(Facts(rows=[row("s", calls=2, tokens=9)], owners={"s": Owner("", "", "red", "")}))
    expected = row("s", calls=2, tokens=9, agent="research", user="u-7", team="red", model="gpt-4o")
    assert await written.model.session("s") == expected
    assert (await written.model.sessions(SessionQuery())).sessions == (expected,)
    assert await written.model.session("nobody") is None


@stored
async def test_sessions_are_found_by_part_of_a_name_by_state_and_by_whose_they_are(written: Written) -> None:
    await written.write(
        Facts(rows=[row("Alpha", 1)], owners={"Alpha": Owner("research", "u1", "red", "gpt-4o")}), "Alpha"
    )
    await written.write(Facts(rows=[row("beta", 2, state="open", action="block")]), "beta")
    await written.write(Facts(rows=[row("gamma", 3)], owners={"gamma": Owner("research", "u2", "", "")}), "gamma")
    assert await names(written) == ["gamma", "beta", "Alpha"]
    assert await names(written, query="ALPH") == await names(written, query="Gpt-4") == ["Alpha"]
    assert await names(written, agent="research") == ["gamma", "Alpha"]
    assert await names(written, agent="research", user="u1") == await names(written, team="red") == ["Alpha"]
    assert await names(written, state="open") == ["beta"]
    assert await names(written, since_ns=row("", 2).last_ns) == ["gamma", "beta"]


@stored
async def test_an_open_breaker_whose_time_is_over_is_half_open_and_one_that_lapses_closed(written: Written) -> None:
    held = {"state": "open", "action": "block"}
    rows = {
        "open": row("open", 3, **held, expires_at_ns=NOW_NS + 1),
        "half": row("half", 2, **held, expires_at_ns=NOW_NS),
        "over": row("over", 1, **held, expires_at_ns=NOW_NS, lapses=True),
    }
    for name, one in rows.items():
        await written.write(Facts(rows=[one]), name)
    shown = (await written.model.sessions(SessionQuery())).sessions
    assert [(r.session, r.state, r.action) for r in shown] == [
        ("open", "open", "block"), ("half", "half_open", "block"), ("over", "closed", "allow"),
    ]  # fmt: skip
    assert await names(written, state="half_open") == ["half"]


@stored
async def test_pages_hold_every_session_once_by_any_order(written: Written) -> None:
    for n in range(23):
        await written.write(Facts(rows=[row(f"s{n:02}", n % 5, calls=n % 3, cost_nano_usd=n)]), f"s{n:02}")
    for sort, field in (
        ("last", "last_ns"),
        ("calls", "calls"),
        ("cost", "cost_nano_usd"),
        ("detections", "detections"),
    ):
        seen: list[SessionRow] = []
        cursor = ""
        while True:
            page = await written.model.sessions(
                SessionQuery.model_validate({"sort": sort, "limit": 4, "cursor": cursor})
            )
            seen += page.sessions
            cursor = page.next
            if not cursor:
                break
        assert sorted(r.session for r in seen) == [f"s{n:02}" for n in range(23)]
        values = [getattr(r, field) for r in seen]
        assert values == sorted(values, reverse=True)


@stored
async def test_a_cursor_of_another_list_is_refused(written: Written) -> None:
    for text in ("nonsense", "12", "-", "1-zz", "99999999999999999999999-00"):
        with pytest.raises(QueryError):
            await written.model.sessions(SessionQuery(cursor=text))
    with pytest.raises(QueryError):
        await written.model.detections(DetectionQuery(cursor="nonsense"))


@stored
async def test_equal_steps_have_equal_small_numbers_and_others_none(written: Written) -> None:
    identities = [7, 2**62 + 5, 7, 0, 0, 2**62 + 5, 11]
    steps = [("s", step(n, identity)) for n, identity in enumerate(identities)]
    await written.write(Facts(steps=steps[:3]))
    await written.write(Facts(steps=steps[3:]))
    assert [s.loop for s in await written.model.timeline("s")] == [1, 2, 1, 0, 0, 2, 0]
    assert [s.span_id for s in await written.model.timeline("s", 2)] == [f"{n:016x}" for n in (5, 6)]
    assert await written.model.timeline("nobody") == []


@stored
async def test_a_step_whose_content_comes_later_is_one_step(written: Written) -> None:
    await written.write(Facts(steps=[("s", step(1)), ("s", step(2))]))
    await written.write(Facts(steps=[("s", step(1, 7, tools=("search",)))]))
    assert [(s.span_id, s.tools) for s in await written.model.timeline("s")] == [
        (f"{1:016x}", ("search",)),
        (f"{2:016x}", ()),
    ]


@stored
async def test_of_a_long_session_the_last_steps_are_shown(written: Written) -> None:
    for n in range(0, 3 * MAX_STEPS, 10):
        await written.write(Facts(steps=[("s", step(n + i)) for i in range(10)]))
    shown = await written.model.timeline("s")
    assert (len(shown), shown[-1].span_id) == (MAX_STEPS, f"{3 * MAX_STEPS - 1:016x}")


@stored
async def test_detections_come_newest_first_and_are_counted_with_their_session(written: Written) -> None:
    await written.write(Facts(rows=[row("s")]))
    others = {2: {"rule": "near", "agent": "research"}, 3: {"session": "t", "user": "u1", "action": "warn"}}
    for n in range(5):
        found = detection(n, **others.get(n, {}))
        await written.write(Facts(found=[(found, n % 2 == 0)]), found.session)

    async def ids(**asked: Any) -> list[str]:
        return [d.id for d in (await written.model.detections(DetectionQuery(**asked))).detections]

    assert await ids() == ["0004", "0003", "0002", "0001", "0000"]
    assert await ids(rule="near") == await ids(agent="research") == ["0002"]
    assert await ids(session="t") == await ids(user="u1") == await ids(action="warn") == ["0003"]
    assert await ids(since_ns=NOW_NS + 3) == ["0004", "0003"]
    first = await written.model.detections(DetectionQuery(limit=3))
    rest = await written.model.detections(DetectionQuery(limit=3, cursor=first.next))
    assert ([d.id for d in rest.detections], rest.next) == (["0001", "0000"], "")
    shown = await written.model.session("s")
    assert shown is not None
    assert (shown.detections, shown.would_block) == (4, 3)


@stored
async def test_what_was_decided_about_a_key_is_told_newest_first(written: Written) -> None:
    for epoch in range(5):
        decision = Decision(key="agent:research", state="closed", issued_at_ns=NOW_NS, epoch=epoch)
        await written.write(Facts(decisions=[decision]), "agent:research")
    assert [d.epoch for d in await written.model.history("agent:research", 3)] == [4, 3, 2]
    assert await written.model.history("agent:nobody") == []


@stored
async def test_minutes_add_up_wherever_they_were_written(written: Written) -> None:
    """The running minute comes last, and one of which nothing is known is zero."""
    for at in ("a", "b", "c", "d", "e"):
        sums = {("agent", "research", MINUTE - 1): Sums(1, 20, 300, 0), ("global", "*", MINUTE): Sums(2, 0, 0, 1)}
        await written.write(Facts(minutes=sums), at)  # type: ignore[arg-type]
    rows = await written.model.series("agent", "research", 3)
    assert [(r.minute - MINUTE, r.calls, r.cost_nano_usd, r.tokens) for r in rows] == [
        (-2, 0, 0, 0), (-1, 5, 100, 1500), (0, 0, 0, 0),
    ]  # fmt: skip
    assert [r.blocks for r in await written.model.series("global", "*", 1)] == [5]
    assert len(await written.model.series("global", "*", 1440)) == 1440


@stored
async def test_steps_of_a_trace_that_is_named_later_go_to_its_session(written: Written) -> None:
    await written.write(Facts(rows=[row("trace:1")], steps=[("trace:1", step(1))]))
    await written.write(Facts(rows=[row("s")], steps=[("s", step(2))], taken={"trace:1": "s"}, gone=["trace:1"]))
    # Both live on the partition of the session.
    shown = [s.span_id for s in await written.model.timeline("s")]
    if partition_of("trace:1", PARTITIONS) == partition_of("s", PARTITIONS) or isinstance(written, InSqlite):
        assert shown == [f"{n:016x}" for n in (1, 2)]
        assert await names(written) == ["s"]


@stored
async def test_names_that_are_no_valid_text_or_look_like_something_else_are_harmless(written: Written) -> None:
    for name in ("\ud800half", "x' OR 1=1 --", "<script>", "a\nb", "*", "ünï"):
        owner = Owner(agent=name.encode("utf-8", "replace").decode())
        await written.write(Facts(rows=[row("\ufffd" if "\ud800" in name else name)], owners={name: owner}), name)
    assert len(await names(written)) == 6
    assert await names(written, query="OR 1=1") == ["x' OR 1=1 --"]
    assert await names(written, query="%") == []

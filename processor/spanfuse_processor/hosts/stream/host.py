"""One worker: the three hops, the write-back of the states of two of them, and what happens when partitions come and go."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from aiokafka.errors import KafkaError
from faust.types import TP

from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.scopes import coverage
from spanfuse_processor.core.scopes.stage import ScopeStage
from spanfuse_processor.errors import ConfigError, SpanfuseError, UnavailableError
from spanfuse_processor.hosts.kafka import within
from spanfuse_processor.hosts.recorder import Recorder
from spanfuse_processor.hosts.reload import notice_of
from spanfuse_processor.hosts.stream.app import HEARTBEAT_S, SESSION_TIMEOUT_S, new_app
from spanfuse_processor.hosts.stream.combine import Combiner
from spanfuse_processor.hosts.stream.detect import Detector
from spanfuse_processor.hosts.stream.expiry import ScopeExpiry, SessionExpiry
from spanfuse_processor.hosts.stream.feed import Feed
from spanfuse_processor.hosts.stream.ingest import Ingest
from spanfuse_processor.hosts.stream.offsets import Offsets
from spanfuse_processor.hosts.stream.outbox import Outbox
from spanfuse_processor.hosts.stream.sessions import Scopes, Sessions
from spanfuse_processor.hosts.stream.table import StateTable
from spanfuse_processor.hosts.stream.writeback import INTERVAL_S, WriteBack
from spanfuse_processor.hosts.topics import SCOPES_CHANGELOG, SESSIONS_CHANGELOG, partitions_of
from spanfuse_processor.otlp.normalise import Normaliser
from spanfuse_processor.telemetry import REJECTED, Counters
from spanfuse_schemas import POLICY_KEY, Policy
from spanfuse_schemas.signing import Keyring
from spanfuse_schemas.topics import CALLS, CHARGES, CONTROL, OTLP_LOGS, OTLP_SPANS, TOPICS, partition_of

if TYPE_CHECKING:
    from spanfuse_processor.config import KafkaSettings

log = logging.getLogger(__name__)

REVOKE_TIMEOUT_S: Final = 15.0
"""How long the last write-back may take when partitions are revoked; after it the worker ends rather than write late."""
FENCE_S: Final = SESSION_TIMEOUT_S - HEARTBEAT_S - 1.0
"""How long this process may be frozen (a suspended machine, a paused container) and still write, seconds: when it was, its
last heartbeat may have been `HEARTBEAT_S` old already."""
STOP_TIMEOUT_S: Final = 3.5
"""How long each of the two halves of a stop may take: the last write-back, and leaving the group."""
DISCONNECT_TIMEOUT_S: Final = 1.0


class StreamHost:
    """Runs the stream engine inside the present event loop.

    Args:
        settings: how to reach Kafka.
        policy: the rules.
        normaliser: makes calls of spans.
        keys: sign what Guards are told.
        feed: tells what people are shown; none: nothing is.
        recorder: measures the work.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        policy: Policy,
        normaliser: Normaliser,
        keys: Keyring | None = None,
        feed: Feed | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self.settings = settings
        self._recorder = recorder or Recorder()
        self.states: tuple[Sessions, Scopes] | None = None
        """Its states; none before it starts."""
        self.counters: Counter[str] = Counter()
        """What was done and what was dropped, by the names of `telemetry`."""
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Fails when the worker has to end."""
        self.ready = asyncio.Event()
        """Set while partitions are assigned and recovered."""
        self._normaliser, self._feed = normaliser, feed
        self._pipeline, self._stage = Pipeline(policy), ScopeStage(policy)
        self.policy = notice_of(policy)
        """The policy in force, as Guards are told it."""
        self.outbox = Outbox(settings, self.fail, self.counters, keys)
        self._tasks: list[asyncio.Task[None]] = []
        self._accepting = False
        self._beat = time.monotonic()

    def fail(self, error: BaseException) -> None:
        """End the worker: going on would lose something."""
        if not isinstance(error, SpanfuseError):
            error = _explained(error)
        if not self.failed.done():
            self.failed.set_exception(error)

    def counts(self) -> dict[str, Any]:
        """All that is counted, since the start of this worker."""
        ingest = {f"ingest/{reason}": n for reason, n in self._normaliser.counters.items()}
        rejected = sum(self._normaliser.counters[reason] for reason in REJECTED)
        counts = Counters({**self.counters, **ingest, "rejected_spans": rejected}).as_dict()
        return counts | ({"coverage": covered} if (covered := self._covered()) else {})

    def _covered(self) -> dict[str, Any] | None:
        """How many of the calls that Guards let through were seen, of all agents; none where that is not known here."""
        partition = self._lives_here("global:*")
        if partition is None or not self._scopes.known("global:*"):
            return None
        known = self._scopes.at("global:*", partition).coverage
        window = known.window(time.time_ns(), self._stage.policy.rules.coverage)
        return coverage.row(window) if known.sources else None

    def accounts(self, scope: str) -> list[dict[str, Any]] | None:
        """The accounts of a scope in the periods that run; none if it lives on another worker."""
        partition = self._lives_here(scope)
        if partition is None:
            return None
        state = self._scopes.at(scope, partition) if self._scopes.known(scope) else None
        return self._stage.accounts(scope, state, time.time_ns())

    def _lives_here(self, scope: str) -> int | None:
        """The partition of a scope; none if it is not this worker's at present."""
        partition = partition_of(scope, self.settings.partitions)
        return partition if self.ready.is_set() and TP(CHARGES, partition) in self.assigned() else None

    async def start(self, checked: Callable[[], Awaitable[None]] | None = None) -> None:
        """Connect, join the group, recover.

        Args:
            checked: called when the topics are known to be there, before anything is read from them.

        Raises:
            UnavailableError: if Kafka does not answer.
            ConfigError: if topics are missing or have other partitions than configured.
        """
        await self.outbox.start()
        partitions = await partitions_of(self.settings)
        _check(partitions, self.settings.partitions)
        if checked is not None:
            await checked()
        self._build(self.settings.partitions)
        self._tasks = [
            asyncio.create_task(self._guarded(work)) for work in (self._run_app, self._write_back, self._run_beat)
        ]

    def adopt(self, policy: Policy) -> None:
        """Work by another policy from now on."""
        self._pipeline.policy = self._stage.policy = policy
        self.policy = notice_of(policy, self.policy)

    async def govern(self, policy: Policy) -> None:
        """Work by another policy from now on, and tell it to Guards."""
        self.adopt(policy)
        await self.publish()

    async def publish(self) -> None:
        """Tell Guards the policy in force."""
        await self.outbox.send(CONTROL, self.policy.to_json(), key=POLICY_KEY.encode(), urgent=True)

    def _build(self, partitions: int) -> None:
        app = self.app = new_app(self.settings, partitions, self.fail)
        self.offsets = Offsets(self._commit)
        self.table = StateTable.create(app, self.settings, partitions)
        self._sessions = Sessions(self.table, self.counters)
        scope_table = StateTable.create(app, self.settings, partitions, "scopes")
        self._scopes = Scopes(scope_table, self.counters)
        outbox, offsets, counters = self.outbox, self.offsets, self.counters
        first = self._writeback = WriteBack(self._sessions, outbox, offsets, partitions)
        second = self._scope_writeback = WriteBack(self._scopes, outbox, offsets, partitions, SCOPES_CHANGELOG)
        self._expiries = (
            SessionExpiry(self.table, self._sessions, self._pipeline, outbox, first, offsets, counters),
            ScopeExpiry(scope_table, self._scopes, self._stage, outbox, second, offsets, counters),
        )
        present, fail = self._is_present, self.fail
        self._detector = Detector(
            self._pipeline, self._sessions, outbox, first, counters, partitions=partitions, present=present, fail=fail
        )
        self._combiner = Combiner(self._stage, self._scopes, outbox, second, counters, present=present, fail=fail)
        if self._feed is not None:
            for part in (self._sessions, self._scopes, self._detector, self._combiner):
                part.told = self._feed
        self._ingest = Ingest(self._normaliser, self.outbox, self.offsets, partitions, self.counters, self._is_present)
        for measured in (self._ingest, self._detector, self._combiner, *self._expiries):
            measured.recorder = self._recorder
        self.states = self._sessions, self._scopes
        self._agent(OTLP_SPANS, self._ingest.handle)
        self._agent(OTLP_LOGS, self._ingest.handle)
        self._agent(CALLS, self._detector.handle)
        self._agent(CHARGES, self._combiner.handle)
        app.on_partitions_revoked.connect(self._on_revoked, weak=False)
        app.on_rebalance_complete.connect(self._on_recovered, weak=False)

    def _agent(self, topic: str, handle: Callable[[Any], Awaitable[None]]) -> None:
        """An agent that hands every message to `handle`, one after the other. Faust neither decodes nor acknowledges:
        see `offsets`."""
        channel = self.app.topic(
            topic, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw", acks=False,
            allow_empty=True,
        )  # fmt: skip

        async def run(stream: Any) -> None:
            async for event in stream.noack().events():
                await handle(event.message)

        self.app.agent(channel, name=f"{__name__}.{topic}")(run)

    def assigned(self) -> set[TP]:
        """Partitions that are this worker's at present, changelogs included."""
        try:
            return set(self.app.consumer.assignment())
        except Exception:  # not yet started, or stopped
            return set()

    def recovering(self) -> int:
        """Changelog records that recovery has still to read."""
        tables: Any = self.app.tables
        return int(tables.recovery.active_remaining_total())

    async def _commit(self, offsets: dict[TP, int]) -> bool:
        consumer: Any = self.app.consumer
        return bool(await consumer._commit(offsets))

    async def _run_beat(self) -> None:
        self._beat = time.monotonic()
        while not self._stood_still():
            self._beat = time.monotonic()
            await asyncio.sleep(0.5)

    def _stood_still(self) -> bool:
        """Whether this process was frozen for so long that its partitions may be another's: then it must not write."""
        frozen_s = time.monotonic() - self._beat
        if frozen_s > FENCE_S:
            self.fail(
                SpanfuseError(f"this process stood still for {frozen_s:.0f} s; ending, its partitions have moved on")
            )
        return self.failed.done()

    def _is_present(self, message: Any) -> bool:
        return self._accepting and not self._stood_still() and message.generation_id == self.app.consumer_generation_id

    async def _on_revoked(self, *_: Any, **__: Any) -> None:
        """The last write-back for partitions that may come back to another worker."""
        if not self._accepting:
            return
        try:
            await asyncio.wait_for(self._drain(), REVOKE_TIMEOUT_S)
        except (TimeoutError, SpanfuseError) as error:
            self.fail(UnavailableError(f"partitions were revoked before their state was stored: {error!r}"))
        self._forget()

    async def _on_recovered(self, *_: Any, **__: Any) -> None:
        self._forget()
        self._accepting = True
        self.ready.set()

    def _forget(self) -> None:
        for part in (self._sessions, self._scopes):
            part.clear()
        for hop in (self._writeback, self._scope_writeback, self._detector, self._combiner, self._ingest, self.offsets):
            hop.forget()
        for expiry in self._expiries:
            expiry.forget()
        if self._feed is not None:
            self._feed.forget()

    async def _drain(self) -> None:
        """Take nothing more, and make durable what has been taken."""
        if self._stood_still():
            return
        async with self._writeback.step, self._scope_writeback.step:
            self._accepting = False
            self.ready.clear()
        await self._writeback.flush()
        await self._scope_writeback.flush()
        if self._feed is not None:
            await self._feed.drain()
        await asyncio.sleep(0)  # lets ingest hear of the acknowledgements that the flush has waited for
        await self.offsets.commit()

    async def _write_back(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_S)
            if self._accepting and not self._stood_still():
                await self._writeback.flush()
                await self._scope_writeback.flush()
                for expiry in self._expiries:
                    await expiry.turn()

    async def _run_app(self) -> None:
        await self.app.start()
        await self.app.wait_until_stopped()
        reason = self.app.crash_reason
        raise UnavailableError(f"the stream engine ended: {reason!r}")

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        """A background task whose failure ends the worker."""
        try:
            await work()
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self.fail(error)

    async def stop(self) -> None:
        """Store, commit, leave the group, disconnect; within 8 s, and also after a start that failed."""
        for task in self._tasks:
            task.cancel()
        if self._accepting and not self.failed.done():
            await _stopped(self._drain())
        if self._tasks:
            await _stopped(self.app.stop())
        await self.outbox.stop(DISCONNECT_TIMEOUT_S)
        if self.failed.done():
            self.failed.exception()  # whoever wants to know has asked, or the start has failed for another reason


def _explained(error: BaseException) -> SpanfuseError:
    """An outage in one line; what nobody foresaw with its traceback in the log."""
    if isinstance(error, (KafkaError, OSError)):
        return UnavailableError(f"Kafka does not answer: {str(error) or type(error).__name__}")
    log.error("the worker has to end", exc_info=error)
    return SpanfuseError(f"{type(error).__name__}: {error}")


def _check(present: dict[str, int], partitions: int) -> None:
    problems = []
    stated = (CALLS, CHARGES, SESSIONS_CHANGELOG, SCOPES_CHANGELOG)
    for topic in (*(t.name for t in TOPICS), SESSIONS_CHANGELOG, SCOPES_CHANGELOG):
        if topic not in present:
            problems.append(f"topic {topic} does not exist: run `spanfuse topics create`")
        elif topic in stated and present[topic] != partitions:
            problems.append(f"receivers.kafka.partitions: {partitions}, but {topic} has {present[topic]}")
    if problems:
        raise ConfigError(problems)
    spans, logs = present[OTLP_SPANS], present[OTLP_LOGS]
    if spans != logs:
        log.warning(
            "%s has %d partitions, %s %d: logged content may miss its spans", OTLP_SPANS, spans, OTLP_LOGS, logs
        )


async def _stopped(work: Coroutine[Any, Any, None]) -> None:
    try:
        if not await within(STOP_TIMEOUT_S, work):
            log.warning("the worker did not stop in time; what it had not stored is delivered again")
    except (SpanfuseError, KafkaError) as error:
        log.warning("the worker could not store everything; the rest is delivered again: %s", error)

"""Spans that an agent's process writes straight to a real broker, which is away, killed and back, and asks who it is."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict

import pytest
from aiokafka.partitioner import DefaultPartitioner

from spanfuse_processor.otlp.decode import decode
from spanfuse_schemas.topics import OTLP_SPANS
from tests.client.test_otel import agent
from tests.services.kafka_secure import SecureKafka
from tests.services.kafka_service import KafkaService
from tests.support.loops import in_loop
from tests.support.stream import PARTITIONS, fresh_topics, read_topic

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]


async def spans_on(brokers: str) -> dict[str, set[int]]:
    """Name of each span → the partitions that it is on."""
    found: defaultdict[str, set[int]] = defaultdict(set)
    for record in await read_topic(brokers, OTLP_SPANS):
        for span in decode(record.value, "protobuf"):
            assert record.key == span.trace_id.encode()
            assert record.partition == DefaultPartitioner()(record.key, range(PARTITIONS), range(PARTITIONS))
            found[span.name].add(record.partition)
    return found


@in_loop
async def test_each_trace_is_on_one_partition(kafka: KafkaService) -> None:
    """As Collectors and receivers of workers write it; the last spans leave when the process exits, within 3 s."""
    await fresh_topics(kafka.brokers)
    run = await asyncio.to_thread(
        agent,
        f"""
        import time
        from opentelemetry import trace
        from spanfuse import instrument, session
        from spanfuse.otel import dropped, flush
        instrument("kafka://{kafka.brokers}", service_name="svc")
        tracer = trace.get_tracer("agent")
        for i in range(20):
            with session("s"), tracer.start_as_current_span(f"parent-{{i}}"):
                for j in range(3):
                    tracer.start_span(f"child-{{i}}").end()
            if i == 10:
                assert flush(20)
        print(dropped(), time.time())
        """,
    )
    ended = time.time()
    assert run.returncode == 0, run.stderr
    lost, exit_began = map(float, run.stdout.split())
    found = await spans_on(kafka.brokers)
    assert lost == 0
    assert ended - exit_began < 4
    assert len(found) == 40
    assert all(found[f"parent-{i}"] == found[f"child-{i}"] and len(found[f"child-{i}"]) == 1 for i in range(20))
    assert len({*map(tuple, found.values())}) > 1


@in_loop
async def test_the_spans_of_a_process_that_ends_at_once_arrive(kafka: KafkaService) -> None:
    await fresh_topics(kafka.brokers)
    run = await asyncio.to_thread(
        agent,
        f"""
        from opentelemetry import trace
        from spanfuse import instrument
        instrument("kafka://{kafka.brokers}")
        trace.get_tracer("agent").start_span("only").end()
        """,
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert [*await spans_on(kafka.brokers)] == ["only"]


@in_loop
async def test_a_forked_child_writes_its_own(kafka: KafkaService) -> None:
    await fresh_topics(kafka.brokers)
    run = await asyncio.to_thread(
        agent,
        f"""
        import os
        from opentelemetry import trace
        from spanfuse import instrument
        from spanfuse.otel import dropped, flush
        instrument("kafka://{kafka.brokers}")
        tracer = trace.get_tracer("agent")
        tracer.start_span("before").end()
        flush(20)
        children = []
        for i in range(3):
            child = os.fork()
            if not child:
                tracer.start_span(f"child-{{i}}").end()
                done = flush(20)
                os._exit(0 if done and not dropped() else 1)
            children.append(child)
        tracer.start_span("after").end()
        flush(20)
        print([os.waitpid(child, 0)[1] for child in children], dropped())
        """,
    )
    assert run.stdout == "[0, 0, 0] 0\n", run.stderr
    assert sorted(await spans_on(kafka.brokers)) == ["after", "before", "child-0", "child-1", "child-2"]


@in_loop
async def test_a_topic_that_is_not_there_is_not_made(kafka: KafkaService) -> None:
    await fresh_topics(kafka.brokers)
    run = await asyncio.to_thread(
        agent,
        f"""
        import asyncio
        from spanfuse.emission.kafka_sender import KafkaSender
        sender = KafkaSender("{kafka.brokers}")
        print(sender.send("nobody-made-this", [(None, b"x")], 20))
        print(sender.send("otlp_spans", [(None, b"x")], 20))
        sender.close()
        import threading
        print([t.name for t in threading.enumerate() if "kafka" in t.name])
        """,
    )
    assert run.stdout == "[False]\n[True]\n[]\n", run.stderr

    async def is_there() -> bool:
        from aiokafka.admin import AIOKafkaAdminClient

        admin = AIOKafkaAdminClient(bootstrap_servers=kafka.brokers)
        await admin.start()
        try:
            return "nobody-made-this" in await admin.list_topics()
        finally:
            await admin.close()

    assert not await is_there()


@in_loop
async def test_a_broker_that_comes_back_gets_what_comes_then(kafka: KafkaService) -> None:
    """What ended meanwhile is dropped and counted; the agent is never held up."""
    if not kafka.managed:
        pytest.skip("the broker of SPANFUSE_TEST_KAFKA is not ours to kill")
    await fresh_topics(kafka.brokers)
    await asyncio.to_thread(kafka.kill)
    running = asyncio.create_task(
        asyncio.to_thread(
            agent,
            f"""
            import time
            from opentelemetry import trace
            from spanfuse import instrument
            from spanfuse.otel import dropped, flush
            instrument("kafka://{kafka.brokers}")
            tracer = trace.get_tracer("agent")
            begin = time.perf_counter()
            for _ in range(1_000):
                tracer.start_span("lost").end()
            held_up_s = time.perf_counter() - begin
            deadline, sent = time.monotonic() + 60, 0
            while time.monotonic() < deadline:
                before = dropped()
                tracer.start_span("back").end()
                sent += 1
                if flush(10) and dropped() == before:
                    break
            print(held_up_s < 1, 1_000 + sent - 1 - dropped())
            """,
            90,
        )
    )
    await asyncio.to_thread(kafka.start)
    run = await running
    assert run.returncode == 0, run.stderr
    prompt, arrived_beside_the_last = run.stdout.split()
    assert prompt == "True"
    found = [span for r in await read_topic(kafka.brokers, OTLP_SPANS) for span in decode(r.value, "protobuf")]
    assert len(found) >= int(arrived_beside_the_last) + 1


def test_the_broker_asks_who_it_is(secure_kafka: SecureKafka) -> None:
    """With the settings of the subscriber: the same variables, the same protocols."""
    given = {
        "SPANFUSE_KAFKA_SASL_MECHANISM": "SCRAM-SHA-256",
        "SPANFUSE_KAFKA_SASL_USERNAME": secure_kafka.user,
        "SPANFUSE_KAFKA_SASL_PASSWORD": secure_kafka.password,
        "SPANFUSE_KAFKA_SSL_CAFILE": str(secure_kafka.cafile),
    }
    code = f"""
        import asyncio
        from aiokafka.admin import AIOKafkaAdminClient, NewTopic
        from spanfuse.emission.kafka_sender import KafkaSender
        from spanfuse.subscribers.kafka import Connection

        async def make():
            admin = AIOKafkaAdminClient(**Connection("{secure_kafka.brokers}").resolved().options())
            await admin.start()
            await admin.create_topics([NewTopic("otlp_spans", 3, 1)])
            await admin.close()

        try:
            asyncio.run(make())
        except Exception as error:
            print(type(error).__name__)
        print(KafkaSender("{secure_kafka.brokers}").send("otlp_spans", [(b"k", b"x")], 20))
    """
    assert agent(code, 60, **given).stdout.splitlines()[-1] == "[True]"
    refused = agent(code, 60, **{**given, "SPANFUSE_KAFKA_SASL_PASSWORD": "wrong"})
    assert refused.stdout.splitlines()[-1] == "[False]"

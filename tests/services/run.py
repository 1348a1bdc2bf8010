"""`python -m tests.services.run`: Kafka and Redis as the tests use them, until Ctrl-C.

Prints the environment variables that make the tests and the benches, and the examples, use these services.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import signal
import threading

from tests.services.choose import start_kafka, start_redis


def main() -> None:
    """Start both, print their addresses, and end them on SIGINT or SIGTERM."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    end = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: end.set())
    with contextlib.ExitStack() as services:
        kafka = start_kafka()
        services.callback(kafka.stop)
        redis = start_redis()
        services.callback(redis.stop)
        print(f"export SPANFUSE_TEST_KAFKA={kafka.brokers} SPANFUSE_TEST_REDIS={redis.url}")
        print(f"export KAFKA_BROKERS={kafka.brokers} REDIS_URL={redis.url}  # for examples/worker.yaml", flush=True)
        end.wait()


if __name__ == "__main__":
    main()

"""`python -m tests.services.prepare`: make sure, before the tests, that Kafka can be started.

It fetches jars and images, which takes longer than a test may, and says in one line what is missing.
"""

from __future__ import annotations

import contextlib
import sys

from tests.services import docker_services, kafka_jars


def main() -> int:
    """0 when Kafka can be started, else 1."""
    try:
        kafka_jars.java()
        kafka_jars.class_path()
    except RuntimeError as error:
        print(f"tests: {error}", file=sys.stderr)
        return 1
    if docker_services.daemon_answers():
        with contextlib.suppress(Exception):  # then local processes serve
            docker_services.pull_images()
    return 0


if __name__ == "__main__":
    sys.exit(main())

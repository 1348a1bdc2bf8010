"""`python -m tests.services.prepare`: make sure, before tests, that services can be started, and JavaScript's exporters run.

It fetches jars, images and packages, which takes longer than a test may, and says in one line what is missing.
"""

from __future__ import annotations

import contextlib
import sys

from tests.services import docker_services, kafka_jars, node_packages, prometheus


def main() -> int:
    """0 when Kafka can be started, else 1. Without Node.js or Prometheus, the tests that need it are skipped."""
    try:
        kafka_jars.java()
        kafka_jars.class_path()
        with contextlib.suppress(kafka_jars.MissingTool):
            node_packages.modules()
        with contextlib.suppress(kafka_jars.MissingTool):
            prometheus.program("prometheus")
    except RuntimeError as error:
        print(f"tests: {error}", file=sys.stderr)
        return 1
    if docker_services.daemon_answers():
        with contextlib.suppress(Exception):  # then local processes serve
            docker_services.pull_images()
    return 0


if __name__ == "__main__":
    sys.exit(main())

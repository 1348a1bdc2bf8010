"""`python -m tests.services.prepare`: make sure, before the tests, that Kafka can be started.

It fetches the jars, which takes longer than a test may, and says in one line what is missing.
"""

from __future__ import annotations

import sys

from tests.services import kafka_jars


def main() -> int:
    """0 when Kafka can be started, else 1."""
    try:
        kafka_jars.java()
        kafka_jars.class_path()
    except RuntimeError as error:
        print(f"tests: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Run the benchmarks: all parts, or those that are named."""

from __future__ import annotations

import argparse
import importlib
import sys

PARTS = {
    "core": "the core's step, its state, and parsing a packed call",
    "guard": "the client's check, and what importing it costs",
    "local": "the local host's step beside what other loop detectors do in the agent's process",
    "proxy": "what the proxy adds to a call and to a stream",
    "ledger": "strict budgets: reserve and settle, in Redis and in SQLite",
    "fingerprint": "how two texts are told equal or alike",
    "ingest": "OTLP bytes to calls",
    "delay": "from the end of a span to the Guard's refusal, embedded and on Kafka",
    "api": "from an operator's reset to all clients of the API",
    "replay": "a replay of packed calls from a topic, beside the stream host's rate",
    "sizing": "what a fleet takes: bytes of calls and sessions in Kafka, memory and Redis",
    "stream": "the stream host's throughput against a naive Faust agent on the same broker",
}


def main() -> int:
    """Print every figure of the parts asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], metavar="part", help=", ".join(PARTS))
    chosen = parser.parse_args().parts or list(PARTS)
    for part in chosen:
        print(f"\n{part}: {PARTS[part]}", flush=True)
        for figure in importlib.import_module(f"bench.{part}").run():
            print(f"  {figure}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Run spanfuse and other loop detectors over the same recordings, with their defaults, and compare where they stop.

Recordings are the *.otlp.jsonl and *.otlp.jsonl.gz of FOLDER, each looked at by itself. A file of which at least half
of the sessions have a label is scored; of any other, the sessions stopped are counted. The first run installs the peers
from the package index into .cache/.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from bench.peers import environment, ours, table
from bench.peers.adapter import Died, Verdicts, ask
from bench.peers.score import Label, load_labels
from bench.peers.sessions import name_of, read, recordings

OURS = "spanfuse"
SYSTEMS = (OURS, *environment.PINS)


def _run(system: str, paths: list[Path]) -> dict[str, Verdicts]:
    found = {}
    for path in paths:
        print(f"{system}: {path.name}", file=sys.stderr, flush=True)
        if system == OURS:
            found[name_of(path)] = ours.replay(path)
        else:
            with read(path) as sessions:
                found[name_of(path)] = ask([str(environment.python()), "-m", f"bench.peers.{system}"], sessions)
    return found


def _results(systems: list[str], paths: list[Path]) -> dict[str, dict[str, Verdicts]]:
    results = {}
    for system in systems:
        try:
            results[f"{system} {environment.PINS[system]}" if system != OURS else system] = _run(system, paths)
        except (environment.NoPeers, Died, subprocess.SubprocessError) as error:
            print(f"{system}: left out: {error}", file=sys.stderr)
    return results


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--labels", type=Path, metavar="FILE", help="JSON lines: session, runaway, onset, block_at")
    parser.add_argument("--only", action="append", choices=SYSTEMS, help="this system; may be given again")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every verdict there")
    asked = parser.parse_args(arguments)
    paths = recordings(asked.folder)
    if not paths:
        parser.error(f"no *.otlp.jsonl or *.otlp.jsonl.gz in {asked.folder}")
    try:
        labels: dict[str, Label] = load_labels(asked.labels) if asked.labels else {}
    except (OSError, ValueError) as error:
        parser.error(str(error))
    results = _results(asked.only or list(SYSTEMS), paths)
    if not results:
        return 1
    rows = table.rows(results, labels)
    print(table.as_markdown(rows) if asked.markdown else table.as_text(rows))
    for note in table.notes(results, labels):
        print(note, file=sys.stderr)
    if asked.json:
        verdicts = {system: {name: asdict(v) for name, v in files.items()} for system, files in results.items()}
        asked.json.write_text(json.dumps(verdicts, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

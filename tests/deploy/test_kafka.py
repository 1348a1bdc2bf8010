"""deploy/kafka: the page of topics is what the code has, and rights are given to topics that there are."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from itertools import pairwise
from pathlib import Path

from deploy.kafka.generator import FILE, page
from spanfuse_processor.hosts.topics import APP_ID, CHANGELOGS
from spanfuse_schemas.topics import CONTROL, TOPICS

FOLDER = Path(__file__).parents[2] / "deploy/kafka"


def commands() -> list[list[tuple[str, str]]]:
    """Options and their values of each call of kafka-acls."""
    environment = {**os.environ, "BOOTSTRAP": "kafka:9092", "KAFKA_ACLS": "echo"}
    done = subprocess.run([FOLDER / "acls.sh"], capture_output=True, text=True, check=True, env=environment)
    return [list(pairwise(shlex.split(line))) for line in done.stdout.splitlines()]


def values(command: list[tuple[str, str]], option: str) -> set[str]:
    """What an option is given."""
    return {value for name, value in command if name == option}


def test_the_page_of_topics_is_what_the_code_has() -> None:
    assert FILE.read_text() == page(), "make topics"


def test_rights_are_given_to_topics_and_a_group_that_there_are() -> None:
    known = {topic.name for topic in (*TOPICS, *CHANGELOGS)}
    assert set().union(*(values(command, "--topic") for command in commands())) == known
    assert set().union(*(values(command, "--group") for command in commands())) == {APP_ID}


def test_workers_alone_write_what_guards_obey() -> None:
    writers = [
        values(command, "--allow-principal")
        for command in commands()
        if CONTROL in values(command, "--topic") and values(command, "--operation") & {"Write", "All"}
    ]
    assert writers == [{"User:spanfuse-worker"}]


def test_its_readme_tells_of_every_role() -> None:
    told = set(re.findall(r"^\| `(\w+)` \|", (FOLDER / "README.md").read_text(), re.MULTILINE))
    assert {f"User:spanfuse-{role}" for role in told} == set().union(
        *(values(c, "--allow-principal") for c in commands())
    )

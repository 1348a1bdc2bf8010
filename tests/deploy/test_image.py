"""deploy/Dockerfile: what it copies is there, what it installs is what pyproject.toml asks for, and it runs as nobody."""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions and their arguments."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "deploy/Dockerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines if line.strip()]


def all_of(name: str) -> list[str]:
    """The arguments of one instruction, each time it stands there."""
    return [arguments for instruction, arguments in instructions() if instruction == name]


def needed(extra: str) -> Iterator[Requirement]:
    """What an extra of the project asks for, with what the extras in it do."""
    asked = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    for requirement in map(Requirement, asked):
        if requirement.name == PROJECT["name"]:
            for inner in requirement.extras:
                yield from needed(inner)
        else:
            yield requirement


def test_its_base_has_a_version_that_the_project_is_tested_with() -> None:
    (python,) = (argument.removeprefix("PYTHON=") for argument in all_of("ARG"))
    assert re.fullmatch(r"3\.\d+\.\d+-slim-\w+", python)
    assert f"Programming Language :: Python :: {'.'.join(python.split('.')[:2])}" in PROJECT["classifiers"]
    assert {image.split()[0] for image in all_of("FROM")} == {"python:${PYTHON}"}


def test_it_runs_as_a_user_that_is_not_root_by_number() -> None:
    (user,) = all_of("USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)


def test_every_command_of_the_command_line_can_be_given_to_it() -> None:
    assert all_of("ENTRYPOINT") == ['["spanfuse"]']
    assert "spanfuse" in PROJECT["scripts"]


def test_what_is_copied_is_there_and_not_ignored() -> None:
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert rules[0] == "*"
    kept = [rule[1:] for rule in rules if rule.startswith("!")]
    copied = [source for line in all_of("COPY") if not line.startswith("--from") for source in shlex.split(line)[:-1]]
    assert copied
    for source in copied:
        assert (ROOT / source).exists()
        assert any(fnmatch.fnmatch(source, pattern) for pattern in kept), source


def test_each_package_of_the_wheel_is_copied() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    copied = " ".join(all_of("COPY"))
    for package in build["targets"]["wheel"]["packages"]:
        assert package in copied


def test_versions_are_locked_and_are_what_the_project_asks_for() -> None:
    lines = (ROOT / "deploy/requirements.txt").read_text().splitlines()
    locked = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    for requirement in (*needed(""), *needed("processor")):
        name = canonicalize_name(requirement.name)
        assert name in locked, f"{name}: `make lock`"
        assert requirement.specifier.contains(locked[name]), f"{requirement} is locked at {locked[name]}: `make lock`"


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1), (None, 1)])
def test_its_health_check_asks_where_it_is_told_to(status: int | None, code: int) -> None:
    (check,) = all_of("HEALTHCHECK")
    command = [str(part) for part in eval(check.partition("CMD ")[2])]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status or 200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/healthz"
        if status is None:
            server.shutdown()
            server.server_close()
        environment = {**os.environ, "SPANFUSE_HEALTH_URL": address}
        done = subprocess.run([sys.executable, *command[1:]], env=environment, capture_output=True, timeout=20)
        server.shutdown()
    assert done.returncode == code

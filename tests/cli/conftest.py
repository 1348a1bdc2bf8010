"""What the tests of the command line share."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from spanfuse_processor.cli import cli

Spanfuse = Callable[..., Result]


@pytest.fixture
def spanfuse(monkeypatch: pytest.MonkeyPatch) -> Spanfuse:
    """Run the command line in this process."""
    monkeypatch.delenv("SPANFUSE_API_URL", raising=False)

    def run(*arguments: object, **options: object) -> Result:
        return CliRunner().invoke(cli, [str(a) for a in arguments], prog_name="spanfuse", **options)  # type: ignore[arg-type]

    return run


@pytest.fixture
def closed_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port

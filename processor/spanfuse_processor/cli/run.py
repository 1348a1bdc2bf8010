"""`up` and `worker`: the commands that stay."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spanfuse_processor.cli.options import config_option, required_config_option

if TYPE_CHECKING:
    from spanfuse_processor.hosts.embedded import EmbeddedHost


@click.command()
@config_option
def up(config_path: Path | None) -> None:
    """Run everything in one process, without services.

    OTLP comes in on 4318 (HTTP) and 4317 (gRPC); decisions go out on 8787 (REST and SSE). State is kept in a SQLite file.
    Stop with Ctrl-C or SIGTERM.

    \b
    Example:
      spanfuse up --config spanfuse.yaml
    """
    import asyncio

    from spanfuse_processor.config import load_config
    from spanfuse_processor.hosts.embedded import run_embedded

    config = load_config(config_path)
    mode = config.service.mode

    def ready(host: EmbeddedHost) -> None:
        click.echo(
            f"spanfuse is up ({mode}): OTLP/HTTP http://127.0.0.1:{host.http_port} · "
            f"OTLP/gRPC 127.0.0.1:{host.grpc_port} · API http://127.0.0.1:{host.api_port}",
            err=True,
        )

    loops: Callable[[], asyncio.AbstractEventLoop] | None = None
    with suppress(ImportError):  # where there is no uvloop, asyncio's own loop serves too
        from uvloop import new_event_loop as loops
    with asyncio.Runner(loop_factory=loops) as runner:
        runner.run(run_embedded(config, ready=ready))


@click.command()
@required_config_option
def worker(config_path: Path) -> None:
    """Run one worker of the fleet: faust-streaming on Kafka.

    Start as many as the topics have partitions. The topics must exist (`spanfuse topics create`). Stop with Ctrl-C or
    SIGTERM.

    \b
    Example:
      spanfuse worker --config worker.yaml
    """
    from spanfuse_processor.config import load_config
    from spanfuse_processor.hosts.stream import run_worker

    run_worker(load_config(config_path))

"""`up` and `worker`: the commands that stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spanfuse_processor.cli.options import config_option, required_config_option

if TYPE_CHECKING:
    from spanfuse_processor.config import Config
    from spanfuse_processor.hosts.embedded import EmbeddedHost


@click.command()
@config_option
def up(config_path: Path | None) -> None:
    """Run everything in one process, without services.

    OTLP comes in on 4318 (HTTP) and 4317 (gRPC); decisions go out on 8787 (REST and SSE). State is kept in a SQLite file.
    Stop with Ctrl-C or SIGTERM; after SIGHUP rules, budgets, tools and mode are those that the file then says.

    \b
    Example:
      spanfuse up --config spanfuse.yaml
    """
    import asyncio

    from spanfuse_processor.config import load_config
    from spanfuse_processor.exporters.hub import make_room
    from spanfuse_processor.hosts.embedded import run_embedded
    from spanfuse_processor.telemetry import logs

    config = load_config(config_path)
    logs.set_up(config.service.telemetry.logs)
    make_room()

    def ready(host: EmbeddedHost) -> None:
        logs.say(f"spanfuse is up ({config.service.mode}): {' · '.join(_addresses(config, host))}")

    loops: Callable[[], asyncio.AbstractEventLoop] | None = None
    with suppress(ImportError):  # where there is no uvloop, asyncio's own loop serves too
        from uvloop import new_event_loop as loops
    with asyncio.Runner(loop_factory=loops) as runner:
        runner.run(run_embedded(config, path=config_path, ready=ready))


def _addresses(config: Config, host: EmbeddedHost) -> Iterator[str]:
    """Where what is served can be reached, with the ports that were taken."""
    otlp, api = config.receivers.otlp, config.extensions.api
    if otlp is not None and otlp.protocols.http is not None:
        scheme = "https" if otlp.protocols.http.tls else "http"
        yield f"OTLP/HTTP {scheme}://{_host(otlp.protocols.http.endpoint)}:{host.http_port}"
    if otlp is not None and otlp.protocols.grpc is not None:
        yield f"OTLP/gRPC {_host(otlp.protocols.grpc.endpoint)}:{host.grpc_port}"
    yield f"API http://{_host(api.endpoint)}:{host.api_port}"


def _host(endpoint: str) -> str:
    return endpoint.rpartition(":")[0]


@click.command()
@required_config_option
def api(config_path: Path) -> None:
    """Serve the API of a stream deployment, with its page.

    It takes the configuration of the workers, with `extensions.readmodel`: the Redis to which they write what it shows. Any
    number of them may run. Stop with Ctrl-C or SIGTERM.

    \b
    Example:
      spanfuse api --config worker.yaml
    """
    import asyncio

    from spanfuse_processor.config import load_config
    from spanfuse_processor.exporters.hub import make_room
    from spanfuse_processor.hosts.api import ApiHost, serve_api
    from spanfuse_processor.telemetry import logs

    config = load_config(config_path)
    logs.set_up(config.service.telemetry.logs)
    make_room()

    def ready(host: ApiHost) -> None:
        logs.say(f"spanfuse api is up: http://{_host(config.extensions.api.endpoint)}:{host.port}")

    asyncio.run(serve_api(config, ready))


@click.command()
@required_config_option
def worker(config_path: Path) -> None:
    """Run one worker of the fleet: faust-streaming on Kafka.

    Start as many as the topics have partitions. The topics must exist (`spanfuse topics create`). It says what it has
    counted as a line of JSON on stderr, once a minute if that has changed, and at its end. Stop with Ctrl-C or SIGTERM; after
    SIGHUP rules, budgets, tools and mode are those that the file then says.

    \b
    Example:
      spanfuse worker --config worker.yaml
    """
    from spanfuse_processor.config import load_config
    from spanfuse_processor.hosts.stream import run_worker
    from spanfuse_processor.telemetry import logs

    config = load_config(config_path)
    logs.set_up(config.service.telemetry.logs)
    run_worker(config, path=config_path)

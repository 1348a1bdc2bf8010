"""`proxy`: the command that stands between agents and their providers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import asyncio

    from spanfuse_processor.proxy.server import ProxyServer


@click.command()
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:8788",
    show_default=True,
    help="Address to listen on; port 0 takes a free one. One that others can reach needs a token.",
)
@click.option(
    "--openai-url",
    metavar="URL",
    envvar="SPANFUSE_OPENAI_URL",
    default="https://api.openai.com/v1",
    show_default=True,
    show_envvar=True,
    help="OpenAI's API, or one like it.",
)
@click.option(
    "--anthropic-url",
    metavar="URL",
    envvar="SPANFUSE_ANTHROPIC_URL",
    default="https://api.anthropic.com",
    show_default=True,
    show_envvar=True,
    help="Anthropic's API, or one like it.",
)
@click.option(
    "--guard",
    "guard_url",
    metavar="URL",
    envvar="SPANFUSE_API_URL",
    show_envvar=True,
    help="Where decisions and rules come from: http://HOST:8787 of `spanfuse up`, or kafka://HOST:9092. Without one, the "
    "default rules hold in this process alone.",
)
@click.option(
    "--ledger",
    metavar="URL",
    envvar="SPANFUSE_LEDGER",
    show_envvar=True,
    help="Where strict budgets are kept: redis://HOST:6379, or a file of SQLite. Without one, sessions have the budgets of "
    "their headers.",
)
@click.option(
    "--mode",
    type=click.Choice(["observe", "enforce"]),
    envvar="SPANFUSE_MODE",
    show_envvar=True,
    help="Whether blocks are enforced. Default: as each decision says.",
)
@click.option(
    "--otlp",
    "otlp_url",
    metavar="URL",
    help="Make spans of the model calls, and send them there: http://HOST:4318 of `spanfuse up` or a Collector, or "
    "kafka://HOST:9092.",
)
@click.option(
    "--nudge", is_flag=True, help="Add the Guard's nudges to conversations. Otherwise requests pass as they are."
)
@click.option(
    "--token",
    metavar="TEXT",
    envvar="SPANFUSE_PROXY_TOKEN",
    show_envvar=True,
    help="What clients have to know, sent as X-Spanfuse-Token.",
)
@click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=click.FloatRange(0.1, 86_400),
    default=600.0,
    show_default=True,
    help="How long a provider may be silent.",
)
@click.option(
    "--metrics",
    metavar="HOST:PORT",
    envvar="SPANFUSE_PROXY_METRICS",
    show_envvar=True,
    help="Serve /metrics for Prometheus there, and /healthz and /readyz. It asks for no token. Default: nowhere.",
)
def proxy(otlp_url: str | None, token: str | None, **options: Any) -> None:
    """Guard agents that cannot be changed: a reverse proxy for OpenAI's and Anthropic's APIs.

    Point the agent's base URL at it, and name its session in the header X-Spanfuse-Session-ID. What the Guard refuses is
    answered with 429; everything else passes as it is. Stop with Ctrl-C or SIGTERM.

    \b
    Example:
      spanfuse proxy --guard http://127.0.0.1:8787 --otlp http://127.0.0.1:4318
    """
    import asyncio

    from pydantic import SecretStr

    from spanfuse_processor.exporters.hub import make_room
    from spanfuse_processor.proxy.server import run_proxy
    from spanfuse_processor.proxy.settings import ProxySettings

    settings = ProxySettings(**options, otlp_url=otlp_url, token=SecretStr(token) if token is not None else None)
    make_room()
    loops: Callable[[], asyncio.AbstractEventLoop] | None = None
    with suppress(ImportError):  # where there is no uvloop, asyncio's own loop serves too
        from uvloop import new_event_loop as loops
    with asyncio.Runner(loop_factory=loops) as runner:
        runner.run(run_proxy(settings, ready=_ready))


def _ready(server: ProxyServer) -> None:
    from spanfuse_processor.hosts.collector import spare_the_collector

    spare_the_collector()
    told = server.settings
    guard = f"decisions of {told.guard_url}" if told.guard_url else "default rules, of this process alone"
    click.echo(
        f"spanfuse proxy on http://{told.listen.rpartition(':')[0]}:{server.port} ({guard}): "
        f"/openai/v1 → {told.openai_url} · /anthropic/v1 → {told.anthropic_url}",
        err=True,
    )

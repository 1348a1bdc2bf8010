"""The command line `spanfuse`. One module per group of commands; each imports what is heavy only when it runs."""

from __future__ import annotations

import click

from spanfuse_processor.cli.alerts import alerts
from spanfuse_processor.cli.breakers import breakers, explain
from spanfuse_processor.cli.budget import budget
from spanfuse_processor.cli.completion import completion
from spanfuse_processor.cli.doctor import doctor
from spanfuse_processor.cli.events import events
from spanfuse_processor.cli.fleet import agents, benchmark
from spanfuse_processor.cli.group import SpanfuseGroup
from spanfuse_processor.cli.insights import insights
from spanfuse_processor.cli.inspect import inspect
from spanfuse_processor.cli.operate import reset
from spanfuse_processor.cli.policy import policy
from spanfuse_processor.cli.prepare import topics, validate
from spanfuse_processor.cli.proxy import proxy
from spanfuse_processor.cli.record import record
from spanfuse_processor.cli.replay import replay
from spanfuse_processor.cli.run import api, up, worker
from spanfuse_processor.cli.sessions import sessions
from spanfuse_processor.cli.show import demo
from spanfuse_processor.cli.status import status
from spanfuse_processor.cli.tail import tail
from spanfuse_processor.cli.tune import tune


@click.group(cls=SpanfuseGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="spanfuse", prog_name="spanfuse")
def cli() -> None:
    """A circuit breaker for LLM agents, fed by the OpenTelemetry spans they already emit.

    Exit codes: 0 good, 1 a problem was found, 2 wrong usage.

    \b
    Example:
      spanfuse demo
    """


for command in (
    up,
    worker,
    api,
    proxy,
    topics,
    validate,
    demo,
    status,
    sessions,
    breakers,
    explain,
    reset,
    agents,
    insights,
    benchmark,
    budget,
    policy,
    events,
    alerts,
    tail,
    inspect,
    doctor,
    record,
    replay,
    tune,
    completion,
):
    cli.add_command(command)


def main() -> None:
    """Entry point of the script `spanfuse`."""
    cli(prog_name="spanfuse")

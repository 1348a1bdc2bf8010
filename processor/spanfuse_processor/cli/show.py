"""`demo`: see it work."""

from __future__ import annotations

import sys

import click

from spanfuse_processor.cli.options import format_option


@click.command()
@format_option
def demo(output: str) -> None:
    """Watch four runaway agents being stopped, and a healthy one finish.

    Starts the embedded host, a fake LLM and five agent processes on free ports of the loopback interface; needs no
    services and no network. Exit code 0 if all five outcomes are right.

    \b
    Example:
      spanfuse demo --format json
    """
    from spanfuse_processor.demo.run import run_demo

    sys.exit(run_demo(output))

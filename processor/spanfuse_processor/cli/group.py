"""How every command fails: one clear line on stderr, an exit code, never a traceback for what an operator can mend."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import IO, Any

import click

from spanfuse_processor.cli.options import printable
from spanfuse_processor.errors import SpanfuseError

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it: 128 + SIGINT."""


class Problem(click.ClickException):
    """Something an operator has to mend; exit code 1.

    Args:
        message: one line per problem.
    """

    exit_code = 1

    def show(self, file: IO[Any] | None = None) -> None:
        """Print it, one line per problem, to stderr."""
        for line in self.message.splitlines():
            click.echo(f"spanfuse: {printable(line)}", err=True, file=file)


class SpanfuseGroup(click.Group):
    """Turns what commands raise into lines and exit codes, and lists them in the order in which they are met."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Commands in the order of registration: to run, to prepare, to look, to tune."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except SpanfuseError as error:
            raise Problem(str(error)) from None
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:
            _silence_stdout()
            ctx.exit(0)
        except OSError as error:
            raise Problem(_plain(error)) from None
        except ValueError as error:
            if not _is_interrupt(error):
                raise
            ctx.exit(INTERRUPTED)


def _is_interrupt(error: ValueError) -> bool:
    """Whether it is Ctrl-C that came while pydantic wrote JSON, which makes an error of its own of it."""
    from pydantic_core import PydanticSerializationError

    return isinstance(error, PydanticSerializationError) and "KeyboardInterrupt" in str(error)


def _plain(error: OSError) -> str:
    """An OSError without its number."""
    if error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    return error.strerror or str(error)


def _silence_stdout() -> None:
    """The reader has gone (`spanfuse tail | head`): what is still buffered must not raise at exit."""
    with suppress(OSError, ValueError):  # stdout is no file, as under a test runner
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

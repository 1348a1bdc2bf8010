"""Anthropic's clients, guarded: one that is there, or a drop-in for it.

>>> client = wrap_anthropic(Anthropic())  # sessions come from `spanfuse.session(...)` around the calls

>>> from spanfuse.integrations.anthropic import Anthropic
>>> client = Anthropic(session_id="run-42", session_budget=5.00, max_steps=20)
>>> message = client.messages.create(model="claude-sonnet-5", max_tokens=1024, messages=messages)  # may raise Blocked
>>> message.spanfuse_cost, message.spanfuse_session_cost, message.spanfuse_session_steps

Guarded are messages, those of `beta` included, in all the forms in which the client offers them: `create`, `stream`, `parse`,
`tool_runner` (each of its calls), `with_raw_response`, `with_streaming_response`, `with_options`. Each is checked once, before
the client's own retries. Counting tokens is free and passes; not seen are batches, and agents that run at Anthropic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

try:
    import anthropic
except ImportError as error:  # pragma: no cover  Proven in an interpreter without it.
    raise ImportError("this integration needs the extra anthropic: pip install 'spanfuse[anthropic]'") from error

from spanfuse.integrations._bound import Bound, DropIn
from spanfuse.integrations._stainless import Guarded, is_guarded
from spanfuse.reading.asked import Kind

if TYPE_CHECKING:
    from spanfuse.guard import Guard

__all__ = ["Anthropic", "AsyncAnthropic", "wrap_anthropic"]

PATHS: Final[dict[str, Kind]] = {"/messages": "messages"}
_PROVIDERS: Final = {"Bedrock": "aws.bedrock", "Vertex": "gcp.vertex_ai"}
"""By a word in the name of the client's class: these classes need packages that not everybody has."""

C = TypeVar("C")


def wrap_anthropic(client: C, guard: Guard | None = None) -> C:
    """Guard a client of Anthropic, in place.

    Args:
        client: an `Anthropic` or `AsyncAnthropic`, those of Bedrock and Vertex included. One that is guarded already stays as
            it is.
        guard: whom to ask; None: one for the process, which needs no server.

    Returns:
        The client.
    """
    return client if is_guarded(client) else _guarded(client, Bound(guard))


def _guarded(client: C, bound: Bound) -> C:
    named = type(client).__name__
    provider = next((provider for word, provider in _PROVIDERS.items() if word in named), "anthropic")
    return Guarded(bound, provider, PATHS).over(client)


class _Guarded(DropIn):
    def _bind(self, bound: Bound) -> None:
        _guarded(self, bound)


class Anthropic(_Guarded, anthropic.Anthropic):
    """As `anthropic.Anthropic`, guarded; with the arguments `guard`, `session_id`, `session_budget` (USD), `max_steps`,
    `deadline_s`, `agent`, `user`, `team`."""


class AsyncAnthropic(_Guarded, anthropic.AsyncAnthropic):
    """As `anthropic.AsyncAnthropic`, guarded, with the same arguments."""

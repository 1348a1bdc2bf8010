"""OpenAI's clients, guarded: one that is there, or a drop-in for it.

>>> client = wrap_openai(OpenAI())  # sessions come from `spanfuse.session(...)` around the calls

>>> from spanfuse.integrations.openai import OpenAI
>>> client = OpenAI(session_id="run-42", session_budget=5.00, max_steps=20)
>>> response = client.chat.completions.create(model="gpt-4o", messages=messages)  # raises Blocked when the run is to stop
>>> response.spanfuse_cost, response.spanfuse_session_cost, response.spanfuse_session_steps

Guarded are chat completions, responses, completions and embeddings, in all the forms in which the client offers them:
`create`, `parse`, `stream`, `with_raw_response`, `with_streaming_response`, `with_options`. Each is checked once, before the
client's own retries. Not seen are calls that go another way: over a websocket, in batches, or as an assistant's run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

try:
    import openai
except ImportError as error:  # pragma: no cover  Proven in an interpreter without it.
    raise ImportError("this integration needs the extra openai: pip install 'spanfuse[openai]'") from error

from spanfuse.integrations._bound import Bound, DropIn
from spanfuse.integrations._stainless import Guarded, is_guarded
from spanfuse.reading.asked import Kind

if TYPE_CHECKING:
    from spanfuse.guard import Guard

__all__ = ["AsyncAzureOpenAI", "AsyncOpenAI", "AzureOpenAI", "OpenAI", "wrap_openai"]

PATHS: Final[dict[str, Kind]] = {
    "/chat/completions": "chat",
    "/responses": "responses",
    "/responses/compact": "responses",
    "/completions": "completions",
    "/embeddings": "embeddings",
}

C = TypeVar("C", bound="openai.OpenAI | openai.AsyncOpenAI")


def wrap_openai(client: C, guard: Guard | None = None) -> C:
    """Guard a client of OpenAI, in place.

    Args:
        client: an `OpenAI` or `AsyncOpenAI`, those of Azure included. One that is guarded already stays as it is.
        guard: whom to ask; None: one for the process, which needs no server.

    Returns:
        The client.
    """
    return client if is_guarded(client) else _guarded(client, Bound(guard))


def _guarded(client: C, bound: Bound) -> C:
    azure = isinstance(client, (openai.AzureOpenAI, openai.AsyncAzureOpenAI))
    return Guarded(bound, "azure.ai.openai" if azure else "openai", PATHS).over(client)


class _Guarded(DropIn):
    def _bind(self, bound: Bound) -> None:
        _guarded(self, bound)  # type: ignore[type-var]


class OpenAI(_Guarded, openai.OpenAI):
    """As `openai.OpenAI`, guarded; with the arguments `guard`, `session_id`, `session_budget` (USD), `max_steps`, `deadline_s`,
    `agent`, `user`, `team`."""


class AsyncOpenAI(_Guarded, openai.AsyncOpenAI):
    """As `openai.AsyncOpenAI`, guarded, with the same arguments."""


class AzureOpenAI(_Guarded, openai.AzureOpenAI):
    """As `openai.AzureOpenAI`, guarded, with the same arguments."""


class AsyncAzureOpenAI(_Guarded, openai.AsyncAzureOpenAI):
    """As `openai.AsyncAzureOpenAI`, guarded, with the same arguments."""

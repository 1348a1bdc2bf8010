"""The API of a running `spanfuse up`, as the commands use it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import httpx

from spanfuse_processor.errors import SpanfuseError, UnavailableError

TIMEOUT_S: Final = 5.0
"""How long an answer may take, seconds."""
STREAM_SILENCE_S: Final = 20.0
"""How long a stream may be silent, seconds: it says something every 5 s."""


class NotFound(SpanfuseError):
    """The API knows nothing of what was asked for."""


class Api:
    """The API at one address. Every method raises `UnavailableError` if it does not answer in time.

    Args:
        url: base URL, such as `http://127.0.0.1:8787`.

    Raises:
        SpanfuseError: if `url` is none.
    """

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        with self._reaching():
            self._client = httpx.Client(base_url=self._url, timeout=TIMEOUT_S, trust_env=False)

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def get(self, path: str) -> Any:
        """The JSON at a path.

        Raises:
            NotFound: if there is nothing.
            SpanfuseError: if the answer is another error.
        """
        with self._reaching():
            return self._json(self._client.get(path))

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """The JSON that answers a JSON body.

        Raises:
            NotFound: if there is nothing.
            SpanfuseError: if the answer is another error.
        """
        with self._reaching():
            return self._json(self._client.post(path, json=body))

    def events(self, path: str) -> Iterator[tuple[str, str]]:
        """The server-sent events at a path, as (event, data), for as long as the server keeps the stream."""
        timeout = httpx.Timeout(TIMEOUT_S, read=STREAM_SILENCE_S)
        with self._reaching(), self._client.stream("GET", path, timeout=timeout) as response:
            if response.is_error:
                raise SpanfuseError(f"{self._url}{path}: HTTP {response.status_code}")
            yield from server_sent(response.iter_lines())
        raise UnavailableError(f"the API at {self._url} has ended the stream")

    def _json(self, response: httpx.Response) -> Any:
        if response.is_error:
            kind = NotFound if response.status_code == httpx.codes.NOT_FOUND else SpanfuseError
            raise kind(f"the API at {self._url} answered {response.status_code}: {_reason(response)}")
        try:
            return response.json()
        except ValueError:
            raise SpanfuseError(f"what answers at {self._url} is not the API of spanfuse") from None

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except httpx.InvalidURL as error:
            raise SpanfuseError(f"{self._url} is no URL: {error}") from None
        except httpx.UnsupportedProtocol as error:
            raise SpanfuseError(f"{self._url}: {error}") from None
        except httpx.HTTPError as error:
            why = str(error) or type(error).__name__
            raise UnavailableError(
                f"the API at {self._url} does not answer ({why}); is `spanfuse up` running?"
            ) from None


def _reason(response: httpx.Response) -> str:
    try:
        body = response.json()
    except ValueError:
        body = None
    reason = body.get("error") or body.get("message") if isinstance(body, dict) else None
    return str(reason or response.reason_phrase)


def server_sent(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    """Parse server-sent events: (event, data) for each; comments are left out."""
    event, data = "message", list[str]()
    for line in lines:
        if not line:
            if data:
                yield event, "\n".join(data)
            event, data = "message", []
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "event":
                event = value
            elif name == "data":
                data.append(value)

"""The API of a running host, `spanfuse up` or `spanfuse api`, as the commands use it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, Final, NamedTuple

import httpx

from spanfuse_processor.cli.options import printable
from spanfuse_processor.errors import SpanfuseError, UnavailableError

TIMEOUT_S: Final = 5.0
"""How long an answer may take, seconds."""
PAGE: Final = 1_000
"""Rows asked for at once."""
STREAM_SILENCE_S: Final = 20.0
"""How long a stream may be silent, seconds: it says something every 5 s."""
UNREADABLE: Final = (KeyError, TypeError, AttributeError)
"""What reading an answer of another shape ends in."""
TRY_AGAIN: Final = (429, 502, 503, 504)
"""Statuses of an answer that a later try may not get."""


class NotFound(SpanfuseError):
    """The API knows nothing of what was asked for."""


class Older(SpanfuseError):
    """The host is of a version that cannot be asked this."""


class Event(NamedTuple):
    """A server-sent event."""

    event: str
    """Its name."""
    data: str
    """What it says."""
    id: str = ""
    """By which a stream goes on behind it; empty: it has none."""


class Api:
    """The API at one address. Every method raises `UnavailableError` if it does not answer in time, and `SpanfuseError` with
    what to do about it if it does not do what is asked.

    Args:
        url: base URL, such as `http://127.0.0.1:8787`.
        token: presented with every request; none: the API needs none.

    Raises:
        SpanfuseError: if `url` is none, or the token cannot be sent.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url: Final = url.rstrip("/")
        self._known = bool(token)
        with self._reaching():
            self._client = httpx.Client(
                base_url=self.url, timeout=TIMEOUT_S, trust_env=False, headers=_presented(token), follow_redirects=False
            )

    def __enter__(self) -> Api:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._client.close()
        if isinstance(error, UNREADABLE):
            why = printable(f"{type(error).__name__}: {error}")
            mine = version("spanfuse")
            raise SpanfuseError(
                f"the API at {self.url} answers in another shape than this command, {mine}, knows ({why}); upgrade the older"
            ) from error

    def get(self, path: str, **query: Any) -> Any:
        """The JSON at a path.

        Args:
            query: parameters; those that are empty are left out.

        Raises:
            NotFound: if there is nothing.
        """
        with self._reaching():
            params = {name: value for name, value in query.items() if value not in (None, "", 0)}
            return self._json(self._client.get(path, params=params or None))

    def listed(self, path: str, name: str, limit: int, **query: Any) -> tuple[list[Any], str]:
        """So many rows of a list, page by page, and the cursor behind them; empty: there are no more.

        Args:
            name: of the rows.
        """
        rows: list[Any] = []
        cursor = ""
        while len(rows) < limit:
            page = self.get(path, limit=min(PAGE, limit - len(rows)), cursor=cursor, **query)
            rows += page[name]
            cursor = page["next"]
            if not cursor:
                break
        return rows, cursor

    def post(self, path: str, body: dict[str, Any], timeout_s: float = TIMEOUT_S) -> Any:
        """The JSON that answers a JSON body.

        Raises:
            NotFound: if there is nothing.
        """
        with self._reaching():
            return self._json(self._client.post(path, json=body, timeout=timeout_s))

    def put(self, path: str, body: dict[str, Any]) -> Any:
        """The JSON that answers a JSON body.

        Raises:
            NotFound: if there is nothing.
        """
        with self._reaching():
            return self._json(self._client.put(path, json=body))

    def events(self, path: str, last_id: str = "") -> Iterator[Event]:
        """The server-sent events at a path, for as long as the server keeps the stream.

        Args:
            last_id: go on behind this one.
        """
        timeout = httpx.Timeout(TIMEOUT_S, read=STREAM_SILENCE_S)
        headers = {"Last-Event-ID": last_id} if last_id else {}
        with self._reaching(), self._client.stream("GET", path, timeout=timeout, headers=headers) as response:
            if response.status_code != httpx.codes.OK:
                response.read()
                raise self._refusal(response)
            yield from server_sent(response.iter_lines())
        raise UnavailableError(f"the API at {self.url} has ended the stream")

    def _json(self, response: httpx.Response) -> Any:
        if not response.is_success:
            raise self._refusal(response)
        try:
            return response.json()
        except ValueError:
            raise self._stranger() from None

    def _refusal(self, response: httpx.Response) -> SpanfuseError:
        """Why it does not do what is asked, and what to do about that."""
        status, reason = response.status_code, _reason(response)
        if status == httpx.codes.UNAUTHORIZED:
            return self._unknown(reason or "")
        if status == httpx.codes.FORBIDDEN and reason is not None:
            more = "; use another token: SPANFUSE_API_TOKEN, or --token" if "the role" in reason else ""
            return SpanfuseError(f"the API at {self.url} refuses: {reason}{more}")
        if status in TRY_AGAIN:
            return UnavailableError(
                f"the API at {self.url} cannot do it now ({reason or status}); try again in a while"
            )
        if reason is None:
            return self._stranger()
        if status == httpx.codes.METHOD_NOT_ALLOWED or (status == httpx.codes.NOT_FOUND and reason == "Not Found"):
            path = printable(response.request.url.path)
            mine = version("spanfuse")
            return Older(f"the spanfuse at {self.url} is older than this command, {mine}: it has no {path}; upgrade it")
        kind = NotFound if status == httpx.codes.NOT_FOUND else SpanfuseError
        return kind(f"the API at {self.url} answered {status}: {reason}")

    def _unknown(self, reason: str) -> SpanfuseError:
        if not self._known:
            return SpanfuseError(f"the API at {self.url} needs a token: set SPANFUSE_API_TOKEN, or give --token")
        return SpanfuseError(
            f"the API at {self.url} refuses the token ({reason}); set another in SPANFUSE_API_TOKEN, or --token"
        )

    def _stranger(self) -> SpanfuseError:
        return SpanfuseError(f"what answers at {self.url} is not the API of spanfuse; give its address: --api URL")

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except httpx.InvalidURL as error:
            raise SpanfuseError(f"{self.url} is no URL: {error}") from None
        except httpx.UnsupportedProtocol as error:
            raise SpanfuseError(f"{self.url}: {error}") from None
        except httpx.HTTPError as error:
            why = str(error) or type(error).__name__
            raise UnavailableError(
                f"the API at {self.url} does not answer ({why}); is `spanfuse up` or `spanfuse api` running there?"
            ) from None


def _presented(token: str | None) -> dict[str, str]:
    """The headers that present a token. It is never part of a message."""
    token = (token or "").strip()
    if not (token.isascii() and token.isprintable()):
        raise SpanfuseError("the token has characters that no header takes; is it whole?")
    return {"Authorization": f"Bearer {token}"} if token else {}


def _reason(response: httpx.Response) -> str | None:
    """Why it was not done, in the server's words; none: it is no server of ours."""
    try:
        body = response.json()
    except ValueError:
        return None
    reason = body.get("error") or body.get("message") if isinstance(body, dict) else None
    return printable(str(reason)) if reason else None


def server_sent(lines: Iterator[str]) -> Iterator[Event]:
    """Parse server-sent events; comments are left out."""
    event, data, last_id = "message", list[str](), ""
    for line in lines:
        if not line:
            if data:
                yield Event(event, "\n".join(data), last_id)
            event, data = "message", []
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "event":
                event = value
            elif name == "data":
                data.append(value)
            elif name == "id":
                last_id = value

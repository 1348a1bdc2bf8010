"""What the proxy adds to a model call, beside a direct call to the same provider on this machine in the same run."""

from __future__ import annotations

import http.client
import itertools
import json
import statistics
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from bench.report import Figure
from tests.support.proxy_process import provider_process, proxy_process

_CALLS = 1_000
_WARM = 100
_STEPS = 10
"""Calls of a session: an agent at work, whose conversation grows."""
_TEXT = "The test fails because the fixture is closed twice. " * 8
_AIM = "1 ms"


class _Agent:
    """Makes the calls of one session after the other over one connection.

    Args:
        url: whom it asks.
        stream: whether it asks for streams.
    """

    def __init__(self, url: str, stream: bool) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc)
        self._stream = stream
        self._count = itertools.count()

    def __call__(self) -> float:
        """One call: ms until its answer is there; of a stream, until its first byte is."""
        n = next(self._count)
        said = [
            {"role": role, "content": f"{_TEXT} {n}.{i}"}
            for i in range(n % _STEPS + 1)
            for role in ("assistant", "user")
        ]
        body = json.dumps({"model": "gpt-4o-mini", "messages": said, "stream": self._stream}).encode()
        headers = {"Content-Type": "application/json", "X-Spanfuse-Session-ID": f"run-{n // _STEPS}"}
        begin = time.perf_counter()
        self._connection.request("POST", "/v1/chat/completions", body, headers)
        answer = self._connection.getresponse()
        answer.read(1)
        first = time.perf_counter()
        answer.read()
        assert answer.status == 200, answer.status
        return ((first if self._stream else time.perf_counter()) - begin) * 1e3


def _taken(**agents: Callable[[], float]) -> dict[str, list[float]]:
    """Each makes its calls, in turn, so that other work on the machine hits all of them alike."""
    times: dict[str, list[float]] = {name: [] for name in agents}
    for n in range(_WARM + _CALLS):
        for name, agent in agents.items():
            taken = agent()
            if n >= _WARM:
                times[name].append(taken)
    return times


def _figures(what: str, direct: list[float], proxied: list[float]) -> list[Figure]:
    found = []
    for name, of in (("p50", statistics.median), ("p99", lambda times: statistics.quantiles(times, n=100)[98])):
        without, with_it = of(direct), of(proxied)
        aim = _AIM if name == "p50" else ""
        found.append(Figure(f"{what}, {name}", with_it, "ms", without, "direct"))
        found.append(Figure(f"{what}, added {name}", with_it - without, "ms", aim=aim))
    return found


def run() -> list[Figure]:
    """Every figure of this part."""
    with provider_process() as (_, url), proxy_process(url) as proxy:
        whole = _taken(direct=_Agent(url, False), proxied=_Agent(proxy.url, False))
        stream = _taken(direct=_Agent(url, True), proxied=_Agent(proxy.url, True))
    return [
        *_figures("a call of up to 20 messages", whole["direct"], whole["proxied"]),
        *_figures("a stream's first byte", stream["direct"], stream["proxied"]),
    ]

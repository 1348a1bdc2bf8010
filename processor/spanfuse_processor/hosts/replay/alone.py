"""A replay of calls at hand, in this process and in memory; what it comes to is what `run` would come to."""

from __future__ import annotations

from typing import Self

from spanfuse_processor.hosts.replay.report import Report
from spanfuse_processor.hosts.replay.scopes import Scopes, may_refuse
from spanfuse_processor.hosts.replay.sessions import Row, Sessions, Take
from spanfuse_processor.hosts.replay.together import report_of
from spanfuse_schemas import Call, CallBatch, Policy


class Alone:
    """A replay under one policy. Use it as a context manager."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._rows: list[Row | Take] = []
        self._scopes = Scopes(policy)
        self._sessions = Sessions(
            policy, "lane-00", self._scopes.take, self._rows.append if may_refuse(policy) else None
        )
        self._calls = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._sessions.close()
        self._scopes.close()

    def call(self, call: Call) -> None:
        """Replay one call."""
        self._sessions.batch(self._calls, CallBatch.made(calls=(call,)), 1)
        self._calls += 1

    def finished(self) -> Report:
        """The report, once all calls have been replayed."""
        return report_of([self._sessions.finished()], self._policy, self._scopes, [self._rows])

"""Asks whoever has to permit a call of a tool. No answer is no."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

TIMEOUT_S: Final = 300.0
"""How long an answer is waited for, seconds: a person has to notice and to look."""
MAX_ASKING: Final = 100
"""Questions that may be open at once in synchronous code, each a thread; beyond it the answer is no."""


class Question(NamedTuple):
    """What somebody is asked to permit."""

    tool: str
    """Name of the tool."""
    arguments: Any
    """What it would be called with: an object, or its JSON text, as the agent gave it."""
    reason: str
    """Why it is asked, as the rule says."""
    session: str | None
    agent: str | None
    user: str | None
    team: str | None


class Approval(NamedTuple):
    """An answer with its reason; `True` and `False` are answers, too."""

    allowed: bool
    reason: str = ""
    """For the agent and for people."""


Handler = Callable[[Question], "bool | Approval | Awaitable[bool | Approval]"]
_NOBODY: Final = Approval(False, "it has to be permitted, and there is nobody to ask")


class Asking:
    """Puts questions to a handler.

    Args:
        handler: a function or coroutine function; None: nobody can be asked.
        timeout_s: how long an answer is waited for, seconds.
    """

    def __init__(self, handler: Handler | None, timeout_s: float) -> None:
        self._handler, self._timeout_s = handler, timeout_s
        self._is_async = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
            getattr(handler, "__call__", None)  # noqa: B004  of an object that is called like a function
        )
        self.after_fork()

    def after_fork(self) -> None:
        """The threads that wait are the parent's."""
        self._room = threading.BoundedSemaphore(MAX_ASKING)

    def ask(self, question: Question) -> Approval:
        """The answer, waited for in this thread; whatever is no answer is no."""
        if self._handler is None:
            return _NOBODY
        if self._is_async and _in_event_loop():
            return Approval(False, "it has to be asked for with `async with`, which an event loop does not wait for")
        answer = self._on_thread(question)
        try:
            return answer if isinstance(answer, Approval) else _approval(answer.result(self._timeout_s))
        except TimeoutError:
            return self._late()
        except Exception as error:
            return _failed(error)

    async def aask(self, question: Question) -> Approval:
        """The same, awaited."""
        if self._handler is None:
            return _NOBODY
        asked: asyncio.Future[Any]
        if self._is_async:
            asked = asyncio.ensure_future(self._awaited(question))
        else:
            answer = self._on_thread(question)
            if isinstance(answer, Approval):
                return answer
            asked = asyncio.wrap_future(answer)
        try:
            await asyncio.wait([asked], timeout=self._timeout_s)
        finally:
            late = not asked.done()
            asked.cancel()  # and not waited for: a handler may hold on to its cancellation
        if late:
            return self._late()
        try:
            return _approval(asked.result())
        except (Exception, asyncio.CancelledError) as error:
            return _failed(error)

    async def _awaited(self, question: Question) -> Any:
        assert self._handler is not None
        answer = self._handler(question)
        return await answer if inspect.isawaitable(answer) else answer

    def _on_thread(self, question: Question) -> Future[Any] | Approval:
        """The answer to come of a thread of its own: one that hangs must not hold up what comes after it, nor the exit."""
        room = self._room
        if not room.acquire(blocking=False):
            return Approval(False, f"{MAX_ASKING} questions are open already")
        answer: Future[Any] = Future()
        context = contextvars.copy_context()

        def work() -> None:
            try:
                found = context.run(self._answered, question)
            except BaseException as error:
                answer.set_exception(error)
            else:
                answer.set_result(found)
            finally:
                room.release()

        answer.set_running_or_notify_cancel()
        threading.Thread(target=work, name="spanfuse-ask", daemon=True).start()
        return answer

    def _answered(self, question: Question) -> Any:
        assert self._handler is not None
        answer = self._handler(question)
        if not inspect.isawaitable(answer):
            return answer

        async def awaited() -> Any:
            return await answer

        return asyncio.run(asyncio.wait_for(awaited(), self._timeout_s))

    def _late(self) -> Approval:
        return Approval(False, f"nobody has answered within {self._timeout_s:g} s")


def _approval(answer: object) -> Approval:
    if isinstance(answer, bool):
        return Approval(answer, "" if answer else "whoever was asked said no")
    if isinstance(answer, Approval) and isinstance(answer.allowed, bool) and isinstance(answer.reason, str):
        return answer
    return Approval(False, f"whoever was asked answered with {type(answer).__name__}, which is neither yes nor no")


def _failed(error: BaseException) -> Approval:
    """Without its message, which may hold the arguments."""
    return Approval(False, f"asking for it failed with {type(error).__name__}")


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True

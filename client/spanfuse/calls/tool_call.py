"""Around one execution of a tool: the policy is asked before it, what it brought is learned from after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from spanfuse import context
from spanfuse.blocked import Blocked
from spanfuse.context import NOBODY, Identity
from spanfuse.names import legible

if TYPE_CHECKING:
    from spanfuse.guard import Guard
    from spanfuse.tools.policy import Judged
    from spanfuse_schemas import Decision, Fingerprint


class ToolCall:
    """One execution: with `with` or `async with`, or with `begin` and `end`. Made by `Guard.tool`. Used again after its end it
    is another execution.

    The same tool with the same arguments inside its block is the same execution, seen by two integrations: it does nothing.

    Attributes:
        name: name of the tool.
        arguments: what it is called with.
        call_id: id of the tool call, as the provider gave it.
        who: whose call it is; known from `begin` on.
        brought: what it brought; None: nothing was said, or it failed.
        error: how it failed; None: it did not.
        began_ns: when it was admitted, nanoseconds since the Unix epoch; 0: not yet.
        ended_ns: when it ended; 0: not yet.
    """

    def __init__(self, guard: Guard, names: Mapping[str, object], name: str, arguments: Any, call_id: str) -> None:
        self.guard = guard
        # What cannot be shown stays as it is: no rule can judge it, and it is denied.
        self.name, self.arguments, self.call_id = legible(name) or name, arguments, legible(call_id) or ""
        self._names = names
        self.who: Identity = NOBODY
        self.brought: Any = None
        self.error: BaseException | None = None
        self.began_ns = self.ended_ns = 0
        self._outer: ToolCall | None = None

    def result(self, value: Any) -> Any:
        """Say what the tool brought; it is given back."""
        self.brought = value
        return value

    def begin(self) -> None:
        """Ask whether the tool may be executed.

        Raises:
            Blocked: it may not.
        """
        if self._enters():
            with self._admitting():
                self._observed(self.guard.tools.admit(self.name, self.arguments, self.who, self.guard.mode))
            self._begun()

    async def abegin(self) -> None:
        """The same, where whoever is asked for permission is awaited."""
        if self._enters():
            with self._admitting():
                self._observed(await self.guard.tools.aadmit(self.name, self.arguments, self.who, self.guard.mode))
            self._begun()

    def _enters(self) -> bool:
        """Find out whose execution it is; False where there is nothing to do."""
        if self.guard.disabled or self._seen():
            return False
        try:
            self.who = context.whose(self._names)
        except Exception:
            self.guard.failed()
        return True

    @contextmanager
    def _admitting(self) -> Iterator[None]:
        """Around the policy, which is asked unless the session is stopped; its failures deny, others let pass, counted."""
        try:
            stopped = self._stopped()
            if stopped is not None:
                raise Blocked(stopped)
            yield
        except Blocked as refusal:
            self.guard.count("denied", rule=refusal.rule, key=refusal.key)
            self.guard.tell("refused", refusal.decision, self.who)
            raise
        except Exception:
            self.guard.failed()

    def _stopped(self) -> Decision | None:
        try:
            return self.guard.stopped(self.who, self._print)
        except Exception:
            self.guard.failed()
            return None

    def _print(self) -> Fingerprint | None:
        from spanfuse.reading.prints import tool_prints
        from spanfuse_schemas.fingerprint import action_print

        return action_print(tool_prints(self.name, self.arguments, None, self.call_id).actions)

    def _observed(self, judged: Judged) -> None:
        if judged.observed is not None:
            self.guard.count("would_block", rule=judged.observed.rule, key=f"tool:{self.name}")

    def _begun(self) -> None:
        self.began_ns, self.ended_ns = self.guard.now_ns(), 0
        self.brought = self.error = None
        self.guard.tell("tool_began", self)

    def _seen(self) -> bool:
        """Whether an integration around this one guards it."""
        outer = TOOL_AT_HAND.get()
        if outer is None or outer.guard is not self.guard or outer.ended_ns:
            return False
        try:
            return outer.name == self.name and bool(outer.arguments == self.arguments)
        except Exception:  # objects of who knows which library: told apart, both are guarded
            return False

    def inside(self) -> None:
        """Make what follows in this context part of this execution, until `outside` or its end: for callbacks."""
        if self.began_ns:
            self._outer = TOOL_AT_HAND.get()
            TOOL_AT_HAND.set(self)

    def outside(self) -> None:
        """End that."""
        if TOOL_AT_HAND.get() is self:
            TOOL_AT_HAND.set(self._outer)

    def end(self, error: BaseException | None = None) -> None:
        """Learn from what came back. Never an error; a second end does nothing.

        Args:
            error: how the tool failed; None: it did not.
        """
        if self.began_ns and not self.ended_ns:
            self.error, self.ended_ns = error, self.guard.now_ns()
            self.guard.tell("tool_ended", self)

    async def aend(self, error: BaseException | None = None) -> None:
        """The same."""
        self.end(error)

    def __enter__(self) -> ToolCall:
        self.begin()
        self.inside()
        return self

    async def __aenter__(self) -> ToolCall:
        await self.abegin()
        self.inside()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.outside()
        self.end(error)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.outside()
        self.end(error)


TOOL_AT_HAND: Final[ContextVar[ToolCall | None]] = ContextVar("spanfuse_tool_call", default=None)
"""The execution whose block this is."""

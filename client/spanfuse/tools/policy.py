"""Which tools an agent may use: rules of its own code, and those of the operators, of which the stricter wins."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from spanfuse.context import NOBODY, Identity
from spanfuse.tools.arguments import Arguments
from spanfuse.tools.asking import TIMEOUT_S, Approval, Asking, Handler, Question
from spanfuse.tools.denials import Denial, Denials
from spanfuse.tools.denied import ToolDenied, tool_denied
from spanfuse.tools.executions import Executions
from spanfuse.tools.rules import STRICTNESS, Asked, Found, RuleList, ToolAction, When

if TYPE_CHECKING:
    from spanfuse.decisions.judge import Mode
    from spanfuse_schemas import Policy, ToolRule


class Judged(NamedTuple):
    """What becomes of a call of a tool."""

    action: ToolAction = "allow"
    rule: str = ""
    """What decided, as of `ToolDenied.rule`; empty: nothing is ruled."""
    reason: str = ""
    observed: Found | None = None
    """What would have refused it, were it enforced."""
    taken: tuple[str, ...] = ()
    """Under which it was counted."""
    used: int = 0
    """Executions before it, where a limit denies."""

    @property
    def needs_ask(self) -> bool:
        """Whether somebody has to be asked."""
        return self.action == "ask"


_ALLOWED: Final = Judged()


class ToolPolicy:
    """Decides about calls of tools. The first rule that holds decides; where none does, `default`.

    >>> policy = ToolPolicy(ask=ask_in_chat)
    >>> policy.deny("bash", when=lambda args: "rm " in args["command"], reason="Files are kept.")
    >>> policy.ask("send_*").allow("search", max_calls=20)
    >>> guard = Guard(tools=policy)

    What fails denies: a condition that raises or is met by arguments that it cannot judge, and a handler that raises, is late,
    or answers neither yes nor no. Rules of operators, from the configuration of the server, are asked as well as these, and
    the stricter of both answers holds.

    Args:
        rules: rules that are data.
        default: what becomes of a call for which no rule holds.
        ask: who is asked where a rule says so: a function or coroutine function of a `Question` that answers True, False or
            an `Approval`. None: such calls are denied.
        ask_timeout_s: how long an answer is waited for, seconds.
        on_denied: called with each `Denial`, in the thread of the call; what it raises is counted.
        keep_arguments: keep the arguments in the list of denials. Default: their fingerprint, and the names of their fields.
    """

    def __init__(
        self,
        rules: Iterable[ToolRule] = (),
        *,
        default: ToolAction = "allow",
        ask: Handler | None = None,
        ask_timeout_s: float = TIMEOUT_S,
        on_denied: Callable[[Denial], object] | None = None,
        keep_arguments: bool = False,
    ) -> None:
        if default not in STRICTNESS:
            raise ValueError(f"default is 'allow', 'ask' or 'deny', not {default!r}")
        self._default: ToolAction = default
        self._rules: list[tuple[ToolRule, When | None]] = [(rule, None) for rule in rules]
        self._own = RuleList(self._rules, default)
        self._central = RuleList()
        self._central_enforced = False
        self.asks: Final = ask is not None
        """Whether somebody may be asked."""
        self._asking = Asking(ask, ask_timeout_s)
        self.denials: Final = Denials(on_denied, keep_arguments=keep_arguments)
        """What was denied."""
        self._executions = Executions()
        self._lock = threading.Lock()

    def after_fork(self) -> None:
        """Locks and threads are the parent's; counts are kept."""
        self._lock = threading.Lock()
        self._asking.after_fork()
        self.denials.after_fork()
        self._executions.after_fork()

    def allow(self, tool: str, **rule: Any) -> ToolPolicy:
        """Add a rule that allows; see `add`."""
        return self.add("allow", tool, **rule)

    def deny(self, tool: str, **rule: Any) -> ToolPolicy:
        """Add a rule that denies; see `add`."""
        return self.add("deny", tool, **rule)

    def ask(self, tool: str, **rule: Any) -> ToolPolicy:
        """Add a rule by which somebody is asked; see `add`."""
        return self.add("ask", tool, **rule)

    def add(
        self,
        action: ToolAction,
        tool: str,
        *,
        when: When | None = None,
        agent: str | None = None,
        team: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        max_calls: int | None = None,
        reason: str = "",
    ) -> ToolPolicy:
        """Add a rule after those that there are.

        Args:
            action: `allow`, `ask` or `deny`.
            tool: name of the tool; `*` and `?` as in a shell.
            when: has to hold, too: a function of the arguments. One that fails denies.
            agent: name of the agent; as a pattern.
            team: name of the team; as a pattern.
            arguments: field of the arguments → what it has to be, as of `ToolRule`: `{"path": {"starts_with": "/srv/"}}`.
            max_calls: executions that it lets through in a session.
            reason: why, for the agent and for people.

        Returns:
            The policy, for the next rule.

        Raises:
            ValueError: it is no rule.
        """
        from spanfuse_schemas import ToolRule

        given = {"agent": agent, "team": team, "arguments": arguments, "max_calls": max_calls}
        rule = ToolRule.model_validate(
            {"tool": tool, "action": action, "reason": reason, **{k: v for k, v in given.items() if v is not None}}
        )
        with self._lock:
            self._rules.append((rule, when))
            self._own = RuleList(self._rules, self._default)
        return self

    def governed(self, policy: Policy) -> None:
        """Take the rules of the operators, in place of those before them: a listener of the Guard."""
        self._central_enforced = policy.mode == "enforce"
        self._central = RuleList(((rule, None) for rule in policy.tools), policy.tools_default)

    def judge(self, tool: str, arguments: Any, who: Identity = NOBODY, mode: Mode | None = None) -> Judged:
        """Decide about a call, without asking anybody; where it is let through or has to be asked for, it is counted. Calls of
        no session are counted together.

        Args:
            arguments: an object, its JSON text, or a plain text.
            who: whose call it is.
            mode: None: rules of its own are enforced, those of the operators as they say; else for all.
        """
        return self._judge(Asked(str(tool), Arguments(arguments), who), mode)

    def _judge(self, asked: Asked, mode: Mode | None) -> Judged:
        own, central = self._own, self._central
        found = [
            (
                rules.first(asked),
                (mode or ("enforce" if of_its_own or self._central_enforced else "observe")) == "enforce",
            )
            for rules, of_its_own in ((own, True), (central, False))
            if rules
        ]
        enforced = _strictest([one for one, holds in found if holds])
        observed = _strictest([one for one, holds in found if not holds])
        if enforced.action == "deny":
            return Judged("deny", enforced.rule, enforced.reason)
        taken, full, used = self._executions.take(asked.who.session, [one for one, _ in found])
        for one, holds in found:
            if one is full and holds:
                return Judged("deny", "tools.max_calls", _limit(one), used=used)
        if full is not None:
            observed = full._replace(action="deny", rule="tools.max_calls", reason=_limit(full))
        refused = observed if observed.action == "deny" else None
        return Judged(enforced.action, enforced.rule, enforced.reason, refused, taken)

    def admit(self, tool: str, arguments: Any, who: Identity = NOBODY, mode: Mode | None = None) -> Judged:
        """Let a call through, asking where a rule says so, or refuse it.

        Args:
            arguments: as of `judge`.
            who: whose call it is.
            mode: as of `judge`.

        Returns:
            What was decided; `observed` is what would have refused it.

        Raises:
            ToolDenied: it is refused.
        """
        if not self._own and not self._central:
            return _ALLOWED
        with _closed(tool):
            asked = Asked(str(tool), Arguments(arguments), who)
            judged = self._judge(asked, mode)
            with self._held(who, judged):
                answer = self._asking.ask(_question(asked, arguments, judged)) if judged.needs_ask else None
            return self._done(asked, judged, answer)

    async def aadmit(self, tool: str, arguments: Any, who: Identity = NOBODY, mode: Mode | None = None) -> Judged:
        """The same, where whoever is asked is awaited.

        Raises:
            ToolDenied: it is refused.
        """
        if not self._own and not self._central:
            return _ALLOWED
        with _closed(tool):
            asked = Asked(str(tool), Arguments(arguments), who)
            judged = self._judge(asked, mode)
            with self._held(who, judged):
                answer = await self._asking.aask(_question(asked, arguments, judged)) if judged.needs_ask else None
            return self._done(asked, judged, answer)

    @contextmanager
    def _held(self, who: Identity, judged: Judged) -> Iterator[None]:
        """While somebody is asked: a call that is cancelled or interrupted meanwhile is not counted."""
        try:
            yield
        except BaseException:
            self._executions.give_back(who.session, judged.taken)
            raise

    def _done(self, asked: Asked, judged: Judged, answer: Approval | None) -> Judged:
        if answer is not None and not answer.allowed:
            self._executions.give_back(asked.who.session, judged.taken)
            judged = judged._replace(action="deny", rule="tools.ask", reason=answer.reason or judged.reason)
        elif answer is not None:
            judged = judged._replace(action="allow")
        if judged.action == "deny":
            self.denials.add(asked.tool, judged.rule, judged.reason, asked.who, asked.arguments, enforced=True)
            raise tool_denied(asked.tool, judged.rule, judged.reason, count=judged.used)
        if judged.observed is not None:
            found = judged.observed
            self.denials.add(asked.tool, found.rule, found.reason, asked.who, asked.arguments, enforced=False)
        return judged


@contextmanager
def _closed(tool: str) -> Iterator[None]:
    """Around all that is decided: what nobody foresaw denies, too."""
    try:
        yield
    except ToolDenied:
        raise
    except Exception as error:
        name = tool if isinstance(tool, str) else type(tool).__name__
        raise tool_denied(name, "tools.failed", f"it failed with {type(error).__name__}") from error


def _strictest(found: list[Found]) -> Found:
    """The strictest of some answers, the first of equal ones; where there are none, yes."""
    return max(found, key=lambda one: STRICTNESS[one.action], default=Found("allow", ""))


def _limit(found: Found) -> str:
    return found.reason or f"at most {found.max_calls} calls in a session"


def _question(asked: Asked, arguments: Any, judged: Judged) -> Question:
    who = asked.who
    return Question(asked.tool, arguments, judged.reason, who.session, who.agent, who.user, who.team)

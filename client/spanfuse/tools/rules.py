"""Rules on tools as they are asked: the first that holds for a call decides, and one that fails denies."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from spanfuse.tools.arguments import MISSING, Arguments, UnreadableError

if TYPE_CHECKING:
    from spanfuse.context import Identity
    from spanfuse_schemas import Matcher, ToolRule

ToolAction = Literal["allow", "ask", "deny"]
When = Callable[[Any], object]
"""Arguments → whether the rule holds. They are an object where they are one, or its JSON text."""

MAX_TEXT_CHARS: Final = 50_000
"""Longest text in which a regular expression is searched for, characters: some milliseconds. A longer one fails."""
STRICTNESS: Final[dict[str, int]] = {"allow": 0, "ask": 1, "deny": 2}


class Asked(NamedTuple):
    """A call of a tool that somebody wants to make."""

    tool: str
    arguments: Arguments
    who: Identity


class Found(NamedTuple):
    """What a list of rules says of a call."""

    action: ToolAction
    rule: str
    """What decided: `tools.deny`, `tools.ask`, `tools.allow`, `tools.default` or `tools.failed`."""
    reason: str = ""
    counted: str = ""
    """Under which the executions are counted that the rule lets through; empty: they are not."""
    max_calls: int = 0
    """So many, then it denies."""


class _Rule(NamedTuple):
    rule: ToolRule
    when: When | None
    counted: str

    def holds(self, asked: Asked) -> bool:
        """Whether it holds for a call.

        Raises:
            Exception: it cannot be said.
        """
        rule, who = self.rule, asked.who
        if not fnmatchcase(asked.tool, rule.tool):
            return False
        if rule.agent is not None and not fnmatchcase(who.agent or "", rule.agent):
            return False
        if rule.team is not None and not fnmatchcase(who.team or "", rule.team):
            return False
        each = all if rule.action == "allow" else any
        for path, matcher in rule.arguments.items():
            values = asked.arguments.at(path)
            met = [value is not MISSING and meets(matcher, value) for value in values]
            if not met or not each(met):
                return False
        return self.when is None or _said(self.when(asked.arguments.value))


class RuleList:
    """Rules in order, and what becomes of a call for which none holds.

    Args:
        rules: the rules, each with a function that has to hold, too, or None.
    """

    def __init__(self, rules: Iterable[tuple[ToolRule, When | None]] = (), default: ToolAction = "allow") -> None:
        self._rules: Sequence[_Rule] = [_Rule(rule, when, _name(rule, when)) for rule, when in rules]
        self.default: Final[ToolAction] = default

    def __bool__(self) -> bool:
        """Whether it can say anything but yes."""
        return bool(self._rules) or self.default != "allow"

    def first(self, asked: Asked) -> Found:
        """What the first rule says that holds. One that fails denies, whatever it would have said."""
        for one in self._rules:
            rule = one.rule
            try:
                holds = one.holds(asked)
            except UnreadableError as error:
                return Found("deny", "tools.failed", f"a rule on {rule.tool} cannot be applied: {error}")
            except Exception as error:  # of a foreign function, whose message may hold the arguments
                return Found("deny", "tools.failed", f"a rule on {rule.tool} failed with {type(error).__name__}")
            if holds:
                counted = one.counted if rule.max_calls is not None else ""
                return Found(rule.action, f"tools.{rule.action}", rule.reason, counted, rule.max_calls or 0)
        return Found(self.default, "tools.default")


def _name(rule: ToolRule, when: When | None) -> str:
    """Two rules that say the same count together, so that counts outlive a reload of the rules."""
    said = rule.model_dump_json(exclude_defaults=True)
    return f"{said}{id(when)}" if when is not None else said


def _said(answer: object) -> bool:
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        raise UnreadableError("a condition has to answer at once; this one is a coroutine")
    return bool(answer)


def meets(matcher: Matcher, value: Any) -> bool:
    """Whether a text or number is what a matcher says.

    Raises:
        UnreadableError: an operator cannot judge it.
    """
    text = value if isinstance(value, str) else json.dumps(value)
    if matcher.equals is not None and not _same(matcher.equals, value, text):
        return False
    if matcher.one_of and not any(_same(one, value, text) for one in matcher.one_of):
        return False
    if not (matcher.contains in text and text.startswith(matcher.starts_with) and text.endswith(matcher.ends_with)):
        return False
    if matcher.matches and not _searched(matcher, text):
        return False
    if matcher.above is not None and not _number(value) > matcher.above:
        return False
    return matcher.below is None or _number(value) < matcher.below


def _searched(matcher: Matcher, text: str) -> bool:
    if len(text) > MAX_TEXT_CHARS:
        raise UnreadableError(f"a text of more than {MAX_TEXT_CHARS} characters")
    return matcher.pattern.search(text)


def _same(wanted: Any, value: Any, text: str) -> bool:
    if isinstance(wanted, bool) or isinstance(value, bool) or isinstance(wanted, str) or isinstance(value, str):
        return (wanted if isinstance(wanted, str) else json.dumps(wanted)) == text
    return bool(wanted == value)


def _number(value: Any) -> float:
    """A number, or a text that is one; what is neither, and what is no number by name, cannot be compared."""
    try:
        found = float("nan") if isinstance(value, bool) else float(value)
    except (ValueError, OverflowError):
        found = float("nan")
    if found != found:
        raise UnreadableError("no number where one is expected")
    return found

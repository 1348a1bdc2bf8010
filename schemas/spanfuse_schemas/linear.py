"""Regular expressions whose search takes time in proportion to the text, whatever the text: an agent chooses what is searched.

The syntax is Python's, without what needs backtracking: back references, looking around, atomic groups. A pattern becomes an
automaton (Thompson 1968), which is run over the text character by character with all its states at once; sets of states that
were met before are remembered, so that it mostly runs as a deterministic one.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

MAX_NODES: Final = 500
"""Largest automaton: each character of the text costs one look at each of its nodes at most. A bounded repeat counts as often
as it may occur."""
MAX_REMEMBERED: Final = 50_000
"""Nodes in all sets of states that are remembered; then it is begun anew."""

_PARSER: Final[Any] = importlib.import_module("re._parser")  # under this name since Python 3.11
_START, _WORD, _NEWLINE, _OTHER, _LAST_NEWLINE, _END = range(6)
_AT: Final[dict[str, Callable[[int, int], bool]]] = {
    "AT_BEGINNING": lambda before, after: before == _START,
    "AT_BEGINNING_STRING": lambda before, after: before == _START,
    "AT_BEGINNING_LINE": lambda before, after: before in (_START, _NEWLINE),
    "AT_END": lambda before, after: after in (_END, _LAST_NEWLINE),
    "AT_END_STRING": lambda before, after: after == _END,
    "AT_END_LINE": lambda before, after: after in (_END, _LAST_NEWLINE, _NEWLINE),
    "AT_BOUNDARY": lambda before, after: (before == _WORD) is not (after == _WORD),
    "AT_NON_BOUNDARY": lambda before, after: (before == _WORD) is (after == _WORD),
}
_CATEGORIES: Final[dict[str, Callable[[str], bool]]] = {
    "CATEGORY_DIGIT": str.isdecimal,
    "CATEGORY_NOT_DIGIT": lambda c: not c.isdecimal(),
    "CATEGORY_SPACE": str.isspace,
    "CATEGORY_NOT_SPACE": lambda c: not c.isspace(),
    "CATEGORY_WORD": lambda c: c.isalnum() or c == "_",
    "CATEGORY_NOT_WORD": lambda c: not (c.isalnum() or c == "_"),
}
_KNOWN_FLAGS: Final = re.IGNORECASE | re.MULTILINE | re.DOTALL | re.VERBOSE | re.UNICODE


class _Node:
    """A state of the automaton: of a character (`test`), of a place (`at`), or neither; without `then` it is the end."""

    __slots__ = ("at", "test", "then")

    def __init__(
        self,
        then: Iterable[_Node] = (),
        test: Callable[[str], bool] | None = None,
        at: Callable[[int, int], bool] | None = None,
    ) -> None:
        self.then, self.test, self.at = list(then), test, at


class _States:
    """A set of states between two characters, and to which set each character leads; none: the pattern was found."""

    __slots__ = ("before", "moves", "nodes")

    def __init__(self, nodes: frozenset[_Node], before: int) -> None:
        self.nodes, self.before = nodes, before
        self.moves: dict[str, _States | None] = {}


class LinearPattern:
    """A pattern to be searched for.

    Raises:
        ValueError: it is no regular expression, is too large, or needs what cannot be had in linear time.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        try:
            parsed = _PARSER.parse(pattern)
            flags = re.RegexFlag(parsed.state.flags)
            if flags & ~_KNOWN_FLAGS:
                raise ValueError("of the flags only i, m, s and x are known")
            self._first = _Builder().sequence(parsed, _Node(), flags)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"not a regular expression: {error}") from None
        self._begin_anew()

    def __reduce__(self) -> tuple[Any, ...]:
        return LinearPattern, (self.pattern,)

    def _begin_anew(self) -> None:
        """Forget the sets; searches under way go on with those that they hold."""
        self._room = MAX_REMEMBERED
        self._known: dict[tuple[frozenset[_Node], int], _States] = {}
        self._start = _States(frozenset([self._first]), _START)

    def search(self, text: str) -> bool:
        """Whether it is found anywhere in a text."""
        states: _States | None = self._start
        for character in text[:-1]:
            assert states is not None
            known = states.moves
            states = known[character] if character in known else self._move(states, character)
            if states is None:
                return True
        assert states is not None
        if text:
            last = text[-1]
            found = self._after(states, last, _LAST_NEWLINE if last == "\n" else _kind(last))
            if found is None:
                return True
            states = _States(found, _kind(last))
        return self._after(states, "", _END) is None

    def _move(self, states: _States, character: str) -> _States | None:
        found = self._after(states, character, _kind(character))
        following = None
        if found is not None:
            key = (found, _kind(character))
            following = self._known.get(key) or self._known.setdefault(key, _States(*key))
        states.moves[character] = following
        self._room -= 1 + len(found or ())
        if self._room < 0:
            self._begin_anew()
        return following

    def _after(self, states: _States, character: str, kind: int) -> frozenset[_Node] | None:
        """The nodes after one more character; None: the pattern ends before it."""
        found = {self._first}  # it may begin at every character
        todo, seen = list(states.nodes), set(states.nodes)
        while todo:
            node = todo.pop()
            if node.test is not None:
                if character and node.test(character):
                    found.update(node.then)
            elif node.at is None or node.at(states.before, kind):
                if not node.then:
                    return None
                fresh = [inner for inner in node.then if inner not in seen]
                seen.update(fresh)
                todo += fresh
        return frozenset(found)


class _Builder:
    """Makes an automaton of a parsed pattern, from its end to its beginning."""

    def __init__(self) -> None:
        self._nodes = 0

    def node(self, then: Iterable[_Node], **what: Any) -> _Node:
        """A node more.

        Raises:
            ValueError: there are too many.
        """
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise ValueError(f"too large a pattern: more than {MAX_NODES} states; repeat fewer things fewer times")
        return _Node(then, **what)

    def sequence(self, items: Any, end: _Node, flags: re.RegexFlag) -> _Node:
        """The automaton of one thing after the other."""
        for operation, value in reversed(list(items)):
            end = self._item(str(operation), value, end, flags)
        return end

    def _item(self, operation: str, value: Any, end: _Node, flags: re.RegexFlag) -> _Node:
        match operation:
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                return self.node([end], test=_test(operation, value, flags))
            case "AT":
                name = str(value)
                if flags & re.MULTILINE and name in ("AT_BEGINNING", "AT_END"):
                    name += "_LINE"
                return self.node([end], at=_AT[name])
            case "BRANCH":
                return self.node([self.sequence(items, end, flags) for items in value[1]])
            case "SUBPATTERN":
                _, added, removed, items = value
                return self.sequence(items, end, (flags | added) & ~removed)
            case "MAX_REPEAT" | "MIN_REPEAT":
                least, most, items = value
                return self._repeat(least, most, items, end, flags)
        raise ValueError(f"{operation.lower()} cannot be searched for in linear time; write it without")

    def _repeat(self, least: Any, most: Any, items: Any, end: _Node, flags: re.RegexFlag) -> _Node:
        if most == _PARSER.MAXREPEAT:
            again = self.node([end])
            again.then.append(self.sequence(items, again, flags))
            found = again
        else:
            found = end
            for _ in range(int(most) - int(least)):
                found = self.node([end, self.sequence(items, found, flags)])
        for _ in range(int(least)):
            found = self.sequence(items, found, flags)
        return found


def _test(operation: str, value: Any, flags: re.RegexFlag) -> Callable[[str], bool]:
    """What a character has to be."""
    if operation == "ANY":
        return (lambda c: True) if flags & re.DOTALL else (lambda c: c != "\n")
    parts = value if operation == "IN" else [("LITERAL", value)]
    negated = operation == "NOT_LITERAL" or str(parts[0][0]) == "NEGATE"
    tests = [_part(str(kind), what) for kind, what in parts if str(kind) != "NEGATE"]
    variants = _cases if flags & re.IGNORECASE else (lambda c: (c,))
    return lambda c: any(test(v) for v in variants(c) for test in tests) is not negated


def _part(kind: str, what: Any) -> Callable[[str], bool]:
    if kind == "RANGE":
        low, high = what
        return lambda c: low <= ord(c) <= high
    return _CATEGORIES[str(what)] if kind == "CATEGORY" else (lambda c: ord(c) == what)


def _cases(character: str) -> tuple[str, ...]:
    """A character as it is, small and capital, where these are single characters."""
    found = {character, character.lower(), character.upper(), character.lower().upper(), character.upper().lower()}
    return tuple(c for c in found if len(c) == 1)


def _kind(character: str) -> int:
    if character == "\n":
        return _NEWLINE
    return _WORD if character.isalnum() or character == "_" else _OTHER

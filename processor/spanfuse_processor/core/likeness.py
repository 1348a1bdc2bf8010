"""Whether two actions are alike, by what `spanfuse_schemas.wording` keeps of their arguments."""

from __future__ import annotations

from collections.abc import Iterable

from spanfuse_schemas.wording import COUNTED, IDLE, MIN_WORDS


def words_of(found: bytes) -> frozenset[bytes]:
    """The words of a wording."""
    return frozenset(found[i : i + 2] for i in range(2, len(found), 2))


def same_wording(a: bytes, b: bytes, similarity: float) -> bool:
    """Whether two wordings are alike; an unknown one is like nothing.

    Args:
        similarity: least Jaccard index of the words, that is those in common by those in either, 0 to 1.
    """
    if a == b:
        return bool(a)
    if not a or not b or a[:2] != b[:2]:
        return False
    mine, other = words_of(a), words_of(b)
    if min(len(mine), len(other)) < MIN_WORDS:
        return False
    return len(mine & other) >= similarity * len(mine | other)


def says_nothing_new(found: bytes, others: Iterable[bytes]) -> bool:
    """Whether each word of a wording is in one of the others."""
    return words_of(found) <= frozenset().union(*map(words_of, others))


def differing_label(a: bytes, b: bytes) -> int:
    """The key of the only field in which two actions differ, if its value may be of no account; else 0."""
    pair = _only_difference(a, b)
    return pair[0][0] if pair and pair[0][0] & IDLE and pair[0][0] == pair[1][0] else 0


def number_moved(a: bytes, b: bytes) -> int:
    """By how much the second's number is larger where two actions differ in that alone; 0 where they differ otherwise."""
    pair = _only_difference(a, b)
    if not pair or pair[0][0] != pair[1][0] or any(int.from_bytes(form[1:]) < COUNTED for form in pair):
        return 0
    moved = (int.from_bytes(pair[1][1:]) - int.from_bytes(pair[0][1:])) % COUNTED
    return moved if moved < COUNTED // 2 else moved - COUNTED


def _only_difference(a: bytes, b: bytes) -> tuple[bytes, bytes] | None:
    """The two forms of the only field in which they differ."""
    if len(a) != len(b):
        return None
    found = None
    for i in range(0, len(a), 4):
        mine, other = a[i : i + 4], b[i : i + 4]
        if mine != other:
            if found:
                return None
            found = mine, other
    return found

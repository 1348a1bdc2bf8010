"""How the arguments of two actions are told alike without keeping them: by their wording, and field by field.

The *wording* of arguments that are prose is the set of their words, two bytes a word: a question asked again in other words
is known by it. Two wordings are alike where their numbers are the same and most of their words; a question that holds no
word of its own, only those that others like it had, asks nothing new. A name that is new makes it another question.

The *fields* of arguments that are an object are four bytes a field: two actions that differ in a single one show whether
what it holds makes any difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final
from zlib import crc32

from spanfuse_schemas.canonical import canonical_text
from spanfuse_schemas.words import key_kind

MAX_CHARS: Final = 512
"""Longest text with a wording, characters: in longer ones, code and documents, one word of a hundred is what matters."""
MAX_WORDS: Final = 32
"""Most words in a wording."""
MIN_WORDS: Final = 4
"""Fewer words than this are alike only if all are the same: of three, each is what matters."""
MAX_SYMBOLS: Final = 0.15
"""Share of characters that are neither letter, digit nor space up to which a text is prose. In a command, a path or code
each of them matters, and so does the order."""
MAX_FIELDS: Final = 8
"""Arguments with more fields are not told apart field by field."""
_STEM_CHARS: Final = 5
"""Letters by which a word is known, so that `publication` and `published` are one: prefixes serve for any language."""
_LONG_CHARS: Final = 4
"""Letters that a word has to have to count among others; `the`, `and`, `not` say little."""
_TOKENS: Final = re.compile(r"[^\W_]+")
_SYMBOL: Final = re.compile(r"[^\w\s]|_")
_DIGIT: Final = re.compile(r"\d")
_LABEL_CHARS: Final = 64
_COUNTED: Final = 2**23
"""Whole numbers below this are kept as they are, so that a page after the last can be told from one before it."""
_MAX_DEPTH: Final = 8


def wording(arguments: Any) -> str:
    """The wording of a tool's arguments in hex, 4 digits each: one of its numbers, then its words in order of their hashes.

    Args:
        arguments: text, or what JSON gives. Keys do not count: they are the tool's words, not the agent's.

    Returns:
        Empty where they are long, no prose, or without words.
    """
    texts: list[str] = []
    left = MAX_CHARS
    for text in texts_of(arguments):
        left -= len(text)
        if left < 0:
            return ""
        texts.append(text)
    joined = " ".join(texts).lower()
    if len(_SYMBOL.findall(joined)) > MAX_SYMBOLS * len(joined):
        return ""
    tokens = _TOKENS.findall(joined)
    numbers = sorted({t for t in tokens if _DIGIT.search(t)})
    words = {t for t in tokens if not _DIGIT.search(t)}
    stems = {t[:_STEM_CHARS].rstrip("s") for t in words if len(t) >= _LONG_CHARS}
    if not words or len(stems) > MAX_WORDS:
        return ""
    if len(stems) < MIN_WORDS:
        stems = {" ".join(sorted(words))}  # as one, it is like no other
    hashes = sorted({_hash(stem) & 0xFFFF for stem in stems})
    return "".join(f"{value:04x}" for value in (_hash(" ".join(numbers)) & 0xFFFF, *hashes))


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


def fields_of(arguments: Any) -> str:
    """The fields of a tool's arguments in hex, 8 digits each: 2 of its key, 6 of its canonical value,
    a small whole number as it is, ordered by key.

    The highest bit of the key says that the value may be of no account: a number or a label under a key that does not say
    what or where. Empty where there are less than two fields, or more than `MAX_FIELDS`.
    """
    if not isinstance(arguments, Mapping) or not 2 <= len(arguments) <= MAX_FIELDS:
        return ""
    return "".join(sorted(_field(str(key), value) for key, value in arguments.items()))


def _field(key: str, value: Any) -> str:
    label = isinstance(value, (int, float)) or (
        isinstance(value, str) and len(value) <= _LABEL_CHARS and bool(_DIGIT.search(value)) and not value.count(" ")
    )
    idle = label and key_kind(key) != "kept"
    if type(value) is int and 0 <= value < _COUNTED:
        content = _COUNTED | value
    else:
        content = _hash(canonical_text({key: value})) & (_COUNTED - 1)
    return f"{(_hash(key) & 0x7F) | idle << 7:02x}{content:06x}"


def number_in(a: bytes, b: bytes) -> tuple[int, int] | None:
    """The numbers in the only field in which two actions differ, `None` where they differ in more, or not in a number."""
    if len(a) != len(b):
        return None
    found: tuple[int, int] | None = None
    for i in range(0, len(a), 4):
        mine, other = a[i : i + 4], b[i : i + 4]
        if mine != other:
            if found or mine[0] != other[0] or not (mine[1] & other[1] & 0x80):
                return None
            found = int.from_bytes(mine[1:]) - _COUNTED, int.from_bytes(other[1:]) - _COUNTED
    return found


def differing_label(a: bytes, b: bytes) -> int:
    """The key of the only field in which two actions differ, if its value may be of no account; else 0."""
    if len(a) != len(b):
        return 0
    found = 0
    for i in range(0, len(a), 4):
        if a[i : i + 4] != b[i : i + 4]:
            if found or a[i] != b[i] or a[i] < 0x80:
                return 0
            found = a[i]
    return found


def texts_of(value: Any, depth: int = 0) -> Iterator[str]:
    """The texts in a JSON-like value, keys left out, and its numbers as text."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values() if depth < _MAX_DEPTH else ():
            yield from texts_of(item, depth + 1)
    elif isinstance(value, (list, tuple)):
        for item in value if depth < _MAX_DEPTH else ():
            yield from texts_of(item, depth + 1)
    elif value is not None:
        yield str(value)


@lru_cache(maxsize=16_384)
def _hash(text: str) -> int:
    return crc32(text.encode("utf-8", "surrogatepass"))

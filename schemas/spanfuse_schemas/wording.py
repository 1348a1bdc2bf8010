"""What is kept of a tool's arguments so that two actions can be told alike: their wording, and their fields, as hashes.

The *wording* of arguments that are prose is the set of their words, two bytes a word: a question asked again in other words
is known by it. Two wordings are alike where their numbers are the same and most of their words; a question that holds no
word of its own, only those that others like it had, asks nothing new. A name that is new makes it another question.

The *fields* of arguments that are an object are four bytes a field: two actions that differ in a single one show whether
what it holds makes any difference.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from spanfuse_schemas.canonical import canonical_text
from spanfuse_schemas.words import is_label, key_kind

MAX_CHARS: Final = 512
"""Longest text with a wording, characters: in longer ones, code and documents, one word of a hundred is what matters."""
MAX_WORDS: Final = 32
"""Most words in a wording."""
MIN_WORDS: Final = 4
"""Fewer words than this are one whole: of three, each is what matters."""
MAX_SYMBOLS: Final = 0.15
"""Share of characters that are neither letter, digit nor space up to which a text is prose. In a command, a path or code
each of them matters, and so does the order."""
MAX_FIELDS: Final = 8
"""Arguments with more fields are not told apart field by field."""
_STEM_CHARS: Final = 5
"""Letters by which a word is known, so that `publication` and `published` are one: prefixes serve for any language."""
_LONG_CHARS: Final = 4
"""Letters that a word has to have to count among others, unless it is a name or all of a field; `the`, `and`, `not` say
little."""
_TOKENS: Final = re.compile(r"[^\W_]+")
_SYMBOL: Final = re.compile(r"[^\w\s]|_")
_QUERY: Final = re.compile(r"\b(?:select|insert|update|delete)\b.{1,200}\b(?:from|into|set|where)\b", re.IGNORECASE)
_DIGIT: Final = re.compile(r"\d")
_LABEL_CHARS: Final = 64
"""Longest label, and longest text whose hash is remembered, characters."""
_CANONICAL_CHARS: Final = 4_096
"""Longer values are compared as they stand."""
IDLE: Final = 0x80
"""Bit of a field's key: what it holds may be of no account."""
SURELY_IDLE: Final = 0x40
"""Bit of a field's key that says so itself."""
COUNTED: Final = 2**23
"""Whole numbers below this keep their distances, so that a page after the last can be told from one before it."""
_NAME_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")
_TEXT_WORDS: Final = re.compile(r"[^\W\d_]+|\d+|[^\w\s]")
"""In arguments each character counts: a symbol is a word."""
_key = secrets.token_bytes(16)
_shared = False
_epoch = 0
_synonym: Callable[[str], str] | None = None
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
    joined = " ".join(texts)
    if len(_SYMBOL.findall(joined)) > MAX_SYMBOLS * len(joined) or _QUERY.search(joined):
        return ""
    tokens = _TOKENS.findall(joined)
    numbers = sorted({t.lower() for t in tokens if _DIGIT.search(t)})
    words = {t for t in tokens if not _DIGIT.search(t)}
    stems = {_stem(t) for t in words if len(t) >= _LONG_CHARS or t[0].isupper() or t in texts}
    if not words or len(stems) > MAX_WORDS:
        return ""
    if len(stems) < MIN_WORDS:
        stems = {" ".join(sorted(t.lower() for t in words))}  # as one, it is like no other
    hashes = sorted({_hash(stem) & 0xFFFF for stem in stems})
    return "".join(f"{value:04x}" for value in (_hash(" ".join(numbers)) & 0xFFFF, *hashes))


def fields_of(arguments: Any) -> str:
    """The fields of a tool's arguments in hex, 8 digits each: 2 of its key, 6 of its canonical value,
    ordered by key. A small whole number is moved by a secret distance, the same for all under its key, so that which of two
    is larger can be seen.

    Bits of the key: `IDLE` for a number or a label under a key that does not say what or where, `SURELY_IDLE` if the key says
    that it is a label. Empty where there are less than two fields, or more than `MAX_FIELDS`.
    """
    if not isinstance(arguments, Mapping) or not 2 <= len(arguments) <= MAX_FIELDS:
        return ""
    return "".join(sorted(_field(str(key), value) for key, value in arguments.items()))


def _field(key: str, value: Any) -> str:
    label = isinstance(value, (int, float)) or (
        isinstance(value, str) and len(value) <= _LABEL_CHARS and bool(_DIGIT.search(value)) and not value.count(" ")
    )
    idle = label and key_kind(key) != "kept"
    if type(value) is int and 0 <= value < COUNTED:
        content = COUNTED | (value + _hash(f"#{key}")) % COUNTED
    else:
        text = value if isinstance(value, str) and len(value) > _CANONICAL_CHARS else canonical_text({key: value})
        content = _hash(text) & (COUNTED - 1)
    sure = idle and is_label(key)
    return f"{(_hash(key) & (SURELY_IDLE - 1)) | idle * IDLE | sure * SURELY_IDLE:02x}{content:06x}"


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


def _stem(word: str) -> str:
    """By what a word is known: a name by all of it, any other by its first letters."""
    return word.lower() if word[0].isupper() else word[:_STEM_CHARS].rstrip("s")


def meaning(tool: str, arguments: Any) -> str:
    """Hash of what a tool call means, 8 hex digits: of the words of its name and arguments, each replaced by the one that
    stands for all with its meaning. Empty unless synonyms are known (`use_synonyms`), and where the arguments are long."""
    if _synonym is None:
        return ""
    text = " ".join(texts_of(arguments))
    if len(text) > MAX_CHARS:
        return ""
    words = [*_NAME_WORDS.findall(tool), *_TEXT_WORDS.findall(text)]
    return f"{_hash(' '.join(_synonym(word.lower()) for word in words)):08x}"


def use_synonyms(synonym: Callable[[str], str] | None) -> None:
    """Give actions a meaning from now on, with a function that replaces a word by the one for all with its meaning."""
    global _synonym, _epoch
    _synonym = synonym
    _epoch += 1


def share_key(secret: str) -> None:
    """Use a secret that other processes use as well: those that take spans of the same sessions have to."""
    global _key, _shared, _epoch
    _epoch += 1
    _shared = True
    _key = hashlib.blake2b(secret.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    _word_hash.cache_clear()


def epoch() -> int:
    """Another number after each change of the key or the synonyms: what was computed before holds no longer."""
    return _epoch


def key_id() -> str:
    """By what two processes can tell that they use the same key, 8 hex digits; empty: it is this process's own."""
    return hashlib.blake2b(b"id", digest_size=4, key=_key).hexdigest() if _shared else ""


def _hash(text: str) -> int:
    return _word_hash(text) if len(text) <= _LABEL_CHARS else _word_hash.__wrapped__(text)


@lru_cache(maxsize=16_384)
def _word_hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4, key=_key).digest())

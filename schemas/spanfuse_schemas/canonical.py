"""The canonical form of a text or a JSON value: equal for two attempts at the same thing, different for two things.

Unicode NFC, white space folded, JSON keys sorted, numbers by value, in JSON strings too; and what changes from one
attempt to the next is masked. What is *volatile*, what is *identity*:

- masked wherever it stands: UUIDs, hex of 8 and more digits, ULIDs, ids with the prefix of a request (`req_…`, `call_…`),
  ISO timestamps, times of day, Unix times of 13 and more digits, durations, memory addresses, names of temporary files; a
  Unix time of ten digits beside a word or under a key of time; the counter beside a word such as `attempt` or `retry`;
- masked by its key: `request_id`, `trace`, `nonce`, `attempt`, `elapsed_ms`, … (a value, not a whole structure or text);
- never masked: numbers as such, dates, versions, digests and commits that are named so, and values of keys that say
  *what* or *where*: file, path, page, offset, line, cursor, query, since, until, and the id of a thing (`order_id`). A
  structure below such a key is looked at by its own keys.
"""

from __future__ import annotations

import json
import re
import unicodedata
from functools import lru_cache
from itertools import compress
from typing import Any, Final

from spanfuse_schemas.words import AFTER, BEFORE, LINKS, MAX_CACHED, PUNCTUATION, key_kind, tells_time

MASK: Final = "<*>"
"""What stands in a canonical text for a volatile part."""

_MAX_DEPTH: Final = 32
"""Deeper parts of a value count as their plain text."""

_VOLATILE: Final = re.compile(
    r"""
    \b(?:
      [0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b                      # UUID
    | \d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?\b              # ISO 8601, extended
    | \d{8}T\d{6}(?:[.,]\d+)?Z?\b                                                         # ISO 8601, basic
    | \d\d:\d\d:\d\d(?:[.,]\d+)?\b                                                        # time of day
    | 0x[0-9a-f]{6,}\b                                                                    # address of memory
    | [0-7](?=[0-9a-z]*[a-z])[0-9a-hjkmnp-tv-z]{25}\b                                     # ULID
    | (?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,}\b                                           # long hex
    | 1[5-9]\d{8}(?:\d{3}|\d{6}|\d{9})(?:\.\d+)?\b                                        # Unix time: ms, us, ns
    | 1[5-9]\d{8}\.\d{3,}\b                                                               # the same in s, of a clock
    | \d+(?:\.\d+)?(?:ms|us|µs|ns)\b | \d+\.\d+s\b                                        # duration
    | (?:req|request|call|toolu|chatcmpl|cmpl|resp|trace|span|corr|nonce)[_-]
      (?:(?=[a-f]*\d)[0-9a-f]{6,} | (?=[a-z]*\d+[a-z])[0-9a-z]{8,})\b                     # id of a request
    | (?:request|req|trace|span|correlation)[_-]?id["']?[=:]["']?[\w.-]+                  # the same, by its name
    | (?:attempt|retry|try|iteration)(?:_?(?:count|no|num|number))?
      [=:\#_.-]*\d+(?:/\d+)?\b                                                            # attempt counter
    | (?:attempts|retries|tries)[\#_.-]*\d+(?:/\d+)?\b                                    # `retries=3` is a setting
    | tmp[a-z0-9_]{8}\b                                                                   # temporary file
    )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_HEAP: Final = re.compile("[\u0300-\u036f]{32}")
_DIGIT: Final = re.compile(r"\d")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?(?:/\d+)?(?:st|nd|rd|th)?", re.IGNORECASE)
_UNIX_TIME: Final = re.compile(r"1[5-9]\d{8}(?:(?:\d{3}|\d{6}|\d{9})(?:\.\d+)?|\.\d{3,})")
_UNIX_SECONDS: Final = re.compile(r"1[5-9]\d{8}(?:\.\d+)?")
"""A time only where something says so."""
_NAMED_SECONDS: Final = re.compile(r"""([\w-]{1,64})(["']?[=:]["']?)1[5-9]\d{8}(?:\.\d+)?\b""")
_PLAIN_CHARS: Final = 12
"""A word of up to so many characters, with neither a letter nor a colon, is a number, a date or an amount: nothing volatile."""
_PREFIXED_DIGESTS: Final = ("sha1:", "sha256:", "sha512:", "md5:", "sha1-", "sha256-", "sha512-")


_MAX_WORDS: Final = 16_384
"""Words remembered with or without a digit."""

_MASKED_VALUE_MAX: Final = 64
"""Longest text that is an id or a time, characters. What is longer under such a key (a stack `trace`) is content."""

_encoder: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str)


def to_json(value: Any) -> str:
    """A value as compact JSON; what JSON does not know counts as its `str`.

    Raises:
        ValueError: it cannot be written: cycles, nesting without end, integers of thousands of digits.
    """
    try:
        return _encoder.encode(value)
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None


@lru_cache(maxsize=16_384)
def _mask_word(word: str, before: str, after: str) -> str:
    """Mask what is volatile in a word that has a digit, given what its neighbours say."""
    core = word.strip(PUNCTUATION)
    if before == "digest" or word.lower().startswith(_PREFIXED_DIGESTS):
        return word
    if before == "id":
        return word.replace(core, MASK)
    if _NUMBER.fullmatch(core):
        counts = before == "counter" or after == "counted"
        if counts or after == "fine unit" or (after == "unit" and "." in core):
            return word.replace(core, MASK)
    if len(word) <= _PLAIN_CHARS and ":" not in word and word.upper() == word.lower():
        return word
    if len(word) > 10 and ("=" in word or ":" in word):
        word = _NAMED_SECONDS.sub(_mask_named, word)
    return _VOLATILE.sub(MASK, word)


def _mask_named(found: re.Match[str]) -> str:
    return f"{found[1]}{found[2]}{MASK}" if tells_time(found[1]) else found[0]


class _Digits(dict[str, bool]):
    """Whether words have a digit, each looked at once, bounded."""

    def __missing__(self, word: str) -> bool:
        found = not word.isalpha() and _DIGIT.search(word) is not None
        if len(word) <= MAX_CACHED:
            if len(self) >= _MAX_WORDS:
                self.clear()  # one atomic step: other threads may be reading
            self[word] = found
        return found


_DIGITS: Final = _Digits()


@lru_cache(maxsize=8_192)
def _about_neighbours(word: str) -> tuple[str, str]:
    """What a word says about the word after it, and about the one before it."""
    core = word.strip(PUNCTUATION).lower()
    return BEFORE.get(core, ""), AFTER.get(core, "")


def _says(word: str) -> tuple[str, str]:
    return _about_neighbours(word) if len(word) <= MAX_CACHED else _about_neighbours.__wrapped__(word)


def _said_of(words: list[str], i: int) -> tuple[str, str]:
    """What the words before a word and the word after it say about it: `attempt 3`, `attempt # 3` and `attempt no. 3` alike."""
    before = _says(words[i - 1])[0] if i else ""
    if before == "filler":
        before = _says(words[i - 2])[0] if i > 1 else ""
    return "" if before == "filler" else before, _says(words[i + 1])[1] if i + 1 < len(words) else ""


def _is_seconds(words: list[str], i: int) -> bool:
    """Whether a word is a Unix time in seconds: ten digits beside a word of time."""
    if not _UNIX_SECONDS.fullmatch(words[i].strip(PUNCTUATION)):
        return False
    before = next((w for w in reversed(words[max(0, i - 2) : i]) if w.strip(PUNCTUATION).lower() not in LINKS), "")
    return tells_time(before) or (i + 1 < len(words) and tells_time(words[i + 1]))


def _composed(text: str) -> str:
    """In NFC, but for heaps of marks on one letter: composing them takes time with their square, and no language has them."""
    return text if text.isascii() or _HEAP.search(text) else unicodedata.normalize("NFC", text)


def _mask(text: str) -> str:
    """A text with its volatile words masked and its white space folded."""
    text = _composed(text)
    words = text.split()
    if _DIGIT.search(text):
        seconds = _UNIX_SECONDS.search(text) is not None
        for i in compress(range(len(words)), map(_DIGITS.__getitem__, words)):
            word = words[i]
            if seconds and _is_seconds(words, i):
                words[i] = _UNIX_SECONDS.sub(MASK, word)
                continue
            mask = _mask_word if len(word) <= MAX_CACHED else _mask_word.__wrapped__
            words[i] = mask(word, *_said_of(words, i))
    return " ".join(words)


def _parse(text: str) -> Any:
    """The JSON object or array that a text is, else None."""
    bare = text.strip()
    if not bare or (bare[0], bare[-1]) not in (("{", "}"), ("[", "]")):
        return None
    try:
        return json.loads(bare)
    except (ValueError, RecursionError):
        return None


def _is_short(value: Any) -> bool:
    """Whether a value can be an id, a counter or a time."""
    if isinstance(value, str):
        return len(value) <= _MASKED_VALUE_MAX
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    """Whether a value is a number, or the text of one."""
    return isinstance(value, int) or (isinstance(value, str) and value.isdecimal())


def _canonical_text(text: str, depth: int, kind: str) -> Any:
    nested = _parse(text)
    if nested is not None:
        return _canonical(nested, depth + 1, kind)
    if kind in ("time", "masked") and _UNIX_SECONDS.fullmatch(text.strip()):
        return MASK
    if kind != "kept":
        return _mask(text)
    return _composed(text)


def _canonical_dict(value: dict[Any, Any], depth: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key in sorted(value, key=str):
        name = key if isinstance(key, str) else str(key)
        own = key_kind(name) if len(name) <= MAX_CACHED else key_kind.__wrapped__(name)
        item = value[key]
        masked = (own == "masked" and _is_short(item)) or (own == "counter" and _is_count(item))
        out[name] = MASK if masked else _canonical(item, depth + 1, own)
    return out


def _canonical_number(value: int | float, kind: str) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    if kind in ("kept", "id") or isinstance(value, bool) or not 1_500_000_000 <= value < 2 * 10**18:
        return value
    text = str(value)
    return (
        MASK if _UNIX_TIME.fullmatch(text) or (kind in ("time", "masked") and _UNIX_SECONDS.fullmatch(text)) else value
    )


def _canonical(value: Any, depth: int, kind: str) -> Any:
    if depth >= _MAX_DEPTH:
        return value if isinstance(value, str) else to_json(value)
    if isinstance(value, str):
        return _canonical_text(value, depth, kind)
    if isinstance(value, dict):
        return _canonical_dict(value, depth)
    if isinstance(value, (list, tuple)):
        return [_canonical(v, depth + 1, kind) for v in value]
    if isinstance(value, (int, float)):
        return _canonical_number(value, kind)
    return value


def canonical_text(value: Any) -> str:
    """The canonical form of a text or of a JSON-like value."""
    canonical = _canonical(value, 0, "")
    return canonical if isinstance(canonical, str) else to_json(canonical)

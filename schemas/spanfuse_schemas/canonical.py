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
_PREFIXED_DIGESTS: Final = ("sha1:", "sha256:", "sha512:", "md5:", "sha1-", "sha256-", "sha512-")


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


@lru_cache(maxsize=4096)
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
    if len(word) > 10 and ("=" in word or ":" in word):
        word = _NAMED_SECONDS.sub(_mask_named, word)
    return _VOLATILE.sub(MASK, word)


def _mask_named(found: re.Match[str]) -> str:
    return f"{found[1]}{found[2]}{MASK}" if tells_time(found[1]) else found[0]


def _says_before(words: list[str], i: int) -> str:
    """What the words before a word say about it: `attempt 3`, `attempt # 3` and `attempt no. 3` alike."""
    for word in reversed(words[max(0, i - 2) : i]):
        said = BEFORE.get(word.strip(PUNCTUATION).lower(), "")
        if said != "filler":
            return said
    return ""


def _says_after(words: list[str], i: int) -> str:
    return AFTER.get(words[i + 1].strip(PUNCTUATION).lower(), "") if i + 1 < len(words) else ""


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
    has_digit = _DIGIT.search
    if has_digit(text):
        seconds = _UNIX_SECONDS.search(text) is not None
        for i, word in enumerate(words):
            if not word.isalpha() and has_digit(word):
                if seconds and _is_seconds(words, i):
                    words[i] = _UNIX_SECONDS.sub(MASK, word)
                    continue
                mask = _mask_word if len(word) <= MAX_CACHED else _mask_word.__wrapped__
                words[i] = mask(word, _says_before(words, i), _says_after(words, i))
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

"""The canonical form of a text or a JSON value: equal for two attempts at the same thing, different for two things.

Unicode NFC, white space folded, JSON keys sorted, numbers by value, in JSON strings too; and what changes from one
attempt to the next is masked. What is *volatile*, what is *identity*:

- masked wherever it stands: UUIDs, hex of 8 and more digits, ULIDs, ids with the prefix of a request (`req_…`, `call_…`),
  ISO timestamps, times of day, Unix times, durations, memory addresses, names of temporary files, and the counter beside a
  word such as `attempt` or `retry`;
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

MASK: Final = "<*>"
"""What stands in a canonical text for a volatile part."""

_MAX_DEPTH: Final = 32
"""Deeper parts of a value count as their plain text."""

_MAX_CACHED: Final = 64
"""Longest word whose canonical form is remembered, characters: bounds the memory of the cache."""

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
    | 1[5-9]\d{8}(?:\d{3}|\d{6}|\d{9})?(?:\.\d+)?\b                                       # Unix time: s, ms, us, ns
    | \d+(?:\.\d+)?(?:ms|us|µs|ns)\b | \d+\.\d+s\b                                        # duration
    | (?:req|request|call|toolu|chatcmpl|cmpl|resp|trace|span|corr|nonce)[_-]
      (?:(?=[a-f]*\d)[0-9a-f]{6,} | (?=[a-z]*\d+[a-z])[0-9a-z]{8,})\b                     # id of a request
    | (?:request|req|trace|span|correlation)[_-]?id["']?[=:]["']?[\w.-]+                  # the same, by its name
    | (?:attempts?|retry|retries|try|tries|iteration)(?:_?(?:count|no|num|number))?
      [=:\#_.-]*\d+(?:/\d+)?\b                                                            # attempt counter
    | tmp[a-z0-9_]{8}\b                                                                   # temporary file
    )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_DIGIT: Final = re.compile(r"\d")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?(?:/\d+)?(?:st|nd|rd|th)?", re.IGNORECASE)
_UNIX_TIME: Final = re.compile(r"1[5-9]\d{8}(?:\d{3}|\d{6}|\d{9})?(?:\.\d+)?")
_PUNCTUATION: Final = "()[]{}<>.,;:!?#=\"'`*|"
_PREFIXED_DIGESTS: Final = ("sha1:", "sha256:", "sha512:", "md5:", "sha1-", "sha256-", "sha512-")


def _named(kind: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), kind)


def _set(names: str) -> frozenset[str]:
    return frozenset(names.split())


_BEFORE: Final = {
    **_named("counter", "attempt attempts retry retries try tries iteration retry-after"),
    **_named("digest", "sha sha1 sha256 sha512 md5 commit digest etag checksum revision rev"),
    **_named("digest", "show checkout cherry-pick revert --hard"),
    **_named("id", "request_id request-id requestid x-request-id req_id trace_id trace-id traceid span_id spanid"),
    **_named("id", "correlation_id correlation-id idempotency_key idempotency-key nonce pid"),
    **_named("filler", "no num nr number"),
    "": "filler",
}
"""What a word says about the word after it."""

_AFTER: Final = {
    **_named("fine unit", "ms us µs ns"),
    **_named("unit", "s sec secs second seconds"),
    **_named("counted", "attempt retry try"),
}
"""What a word says about the number before it."""

_COUNTER_WORDS: Final = _set("attempt attempts retry retries")
_KEPT_WORDS: Final = _set(
    "file filename path page offset line lines cursor query url uri limit start end begin since until before after from to "
    "deadline due scheduled next continuation thread version revision rev commit sha md digest checksum etag max min"
)
_MASKED_WORDS: Final = _set("nonce uuid guid ulid timestamp ts elapsed latency took uptime pid")
_MASKED_KEYS: Final = _set("trace idempotency_key duration_ms duration_us duration_ns")
_MASKED_IDS: Final = _set("request req trace span correlation invocation call attempt")
"""`<word>_id` names one request, not a thing."""
_OPEN_IDS: Final = _set("run message execution transaction session event response conversation operation log")
"""`<word>_id` may be either: masked where it looks random. Any other `<word>_id` names a thing."""
_KEY_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
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
    core = word.strip(_PUNCTUATION)
    if before == "digest" or word.lower().startswith(_PREFIXED_DIGESTS):
        return word
    if before == "id":
        return word.replace(core, MASK)
    if _NUMBER.fullmatch(core):
        counts = before == "counter" or after == "counted"
        if counts or after == "fine unit" or (after == "unit" and "." in core):
            return word.replace(core, MASK)
    return _VOLATILE.sub(MASK, word)


def _says_before(words: list[str], i: int) -> str:
    """What the words before a word say about it: `attempt 3`, `attempt # 3` and `attempt no. 3` alike."""
    for word in reversed(words[max(0, i - 2) : i]):
        said = _BEFORE.get(word.strip(_PUNCTUATION).lower(), "")
        if said != "filler":
            return said
    return ""


def _says_after(words: list[str], i: int) -> str:
    return _AFTER.get(words[i + 1].strip(_PUNCTUATION).lower(), "") if i + 1 < len(words) else ""


def _mask(text: str) -> str:
    """A text with its volatile words masked and its white space folded."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    words = text.split()
    has_digit = _DIGIT.search
    if has_digit(text):
        for i, word in enumerate(words):
            if not word.isalpha() and has_digit(word):
                mask = _mask_word if len(word) <= _MAX_CACHED else _mask_word.__wrapped__
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


@lru_cache(maxsize=4096)
def _key_kind(key: str) -> str:
    """What a key says about its value: `kept`, `masked`, `id` (masked where it looks random) or nothing."""
    words = [w.lower() for w in _KEY_WORDS.findall(key[:_MAX_CACHED])]
    if any(w in _COUNTER_WORDS for w in words):
        return "masked"
    if any(w in _KEPT_WORDS for w in words):
        return "kept"
    if "_".join(words) in _MASKED_KEYS or any(w in _MASKED_WORDS for w in words):
        return "masked"
    if not words or words[-1] not in ("id", "ids"):
        return ""
    noun = words[-2] if len(words) > 1 else ""
    if noun in _MASKED_IDS:
        return "masked"
    return "id" if not noun or noun in _OPEN_IDS else "kept"


def _is_short(value: Any) -> bool:
    """Whether a value can be an id, a counter or a time."""
    if isinstance(value, str):
        return len(value) <= _MASKED_VALUE_MAX
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _canonical_text(text: str, depth: int, kind: str) -> Any:
    nested = _parse(text)
    if nested is not None:
        return _canonical(nested, depth + 1, kind)
    if kind != "kept":
        return _mask(text)
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _canonical_dict(value: dict[Any, Any], depth: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key in sorted(value, key=str):
        name = key if isinstance(key, str) else str(key)
        own = _key_kind(name) if len(name) <= _MAX_CACHED else _key_kind.__wrapped__(name)
        item = value[key]
        masked = own == "masked" and _is_short(item)
        out[name] = MASK if masked else _canonical(item, depth + 1, own)
    return out


def _canonical_number(value: int | float, kind: str) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    if kind in ("kept", "id") or isinstance(value, bool) or not 1_500_000_000 <= value < 2 * 10**18:
        return value
    return MASK if _UNIX_TIME.fullmatch(str(value)) else value


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

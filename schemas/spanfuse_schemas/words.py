"""What words and keys say about the value beside them or under them: the tables of the canonical form."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

MAX_CACHED: Final = 64
"""Longest word or key about which something is remembered, characters: bounds the memory of the caches."""

PUNCTUATION: Final = "()[]{}<>.,;:!?#=\"'`*|"


def _named(kind: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), kind)


def _set(names: str) -> frozenset[str]:
    return frozenset(names.split())


BEFORE: Final = {
    **_named("counter", "attempt attempts retry retries try tries iteration retry-after"),
    **_named("digest", "sha sha1 sha256 sha512 md5 commit digest etag checksum revision rev"),
    **_named("digest", "show checkout cherry-pick revert --hard"),
    **_named("id", "request_id request-id requestid x-request-id req_id trace_id trace-id traceid span_id spanid"),
    **_named("id", "correlation_id correlation-id idempotency_key idempotency-key nonce pid"),
    **_named("filler", "no num nr number"),
    "": "filler",
}
"""What a word says about the word after it."""

AFTER: Final = {
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
_COUNTING_WORDS: Final = _set("seq sequence seed iteration try tries")
"""A number under such a key tells one attempt from the next."""
_LABEL_WORDS: Final = _set("label run idx round salt marker random rand dummy")
_TIME_WORDS: Final = _set(
    "time date datetime epoch unix utc gmt when at created updated modified sent received issued expires expiry exp iat nbf now"
)
"""What is under or beside such a word may be a time in whole seconds. Elsewhere ten digits are a telephone number, a size,
or the id of a customer."""
_MASKED_KEYS: Final = _set("trace idempotency_key duration_ms duration_us duration_ns")
_MASKED_IDS: Final = _set("request req trace span correlation invocation call attempt")
"""`<word>_id` names one request, not a thing."""
_OPEN_IDS: Final = _set("run message execution transaction session event response conversation operation log")
"""`<word>_id` may be either: masked where it looks random. Any other `<word>_id` names a thing."""
_KEY_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
LINKS: Final = _set("at is was of") | {""}
"""What may stand between a word of time and its number."""


@lru_cache(maxsize=4096)
def key_kind(key: str) -> str:
    """What a key says about its value: `kept`, `masked`, `counter` (masked if a number), `id` (masked where it looks random),
    `time` or nothing."""
    words = [w.lower() for w in _KEY_WORDS.findall(key[:MAX_CACHED])]
    if any(w in _COUNTER_WORDS for w in words) and not any(w in ("max", "min") for w in words):
        return "masked"
    if any(w in _COUNTING_WORDS for w in words):
        return "counter"
    if any(w in _KEPT_WORDS for w in words):
        return "kept"
    if "_".join(words) in _MASKED_KEYS or any(w in _MASKED_WORDS for w in words):
        return "masked"
    if not words or words[-1] not in ("id", "ids"):
        return "time" if any(w in _TIME_WORDS for w in words) else ""
    noun = words[-2] if len(words) > 1 else ""
    if noun in _MASKED_IDS:
        return "masked"
    return "id" if not noun or noun in _OPEN_IDS else "kept"


@lru_cache(maxsize=4096)
def is_label(key: str) -> bool:
    """Whether a key says that a number or label under it only tells one call from the next."""
    words = [w.lower() for w in _KEY_WORDS.findall(key[:MAX_CACHED])]
    return key_kind(key[:MAX_CACHED]) in ("masked", "counter") or (bool(words) and words[-1] in _LABEL_WORDS)


def tells_time(word: str) -> bool:
    """Whether a word speaks of time, so that ten digits beside it are one."""
    return key_kind(word.strip(PUNCTUATION)[:MAX_CACHED]) in ("time", "masked")

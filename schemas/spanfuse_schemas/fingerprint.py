"""Fingerprints: how two texts are told equal, equal but for volatile parts, or alike, without keeping either.

The format is part of the wire contract: ingest, the Guard and agents in other languages must compute the same values.
A text has three hashes:

- *exact*, of its raw characters;
- *canonical*, of the text after Unicode NFC, with white space folded, JSON keys sorted, numbers by value, and what changes
  from one attempt to the next masked (UUIDs, long hex, ULIDs, timestamps, durations, addresses, attempt counters, and the
  values of id-named keys), inside JSON strings too. Values of keys that say *where* in a resource (file, path, page,
  offset, line, cursor, query) are never masked, nor are digests of content;
- *near*, a SimHash of the canonical text where that is long enough for a distance to mean something.

A truncated text has no identity: its hashes are empty and equal nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

if TYPE_CHECKING:
    from spanfuse_schemas.call import Action, Fingerprint, Message

NEAR_MIN_CHARS: Final = 256
"""Shortest canonical text with a SimHash, characters. One changed word of 40 moves about 7 of 64 bits: below this length
a distance of a few bits can only come from equal texts, which the canonical hash finds already."""

NEAR_MAX_SHINGLES: Final = 128
"""Shingles hashed at about; of longer texts a sample chosen by hash, so that equal texts choose equal shingles."""

_MAX_DEPTH: Final = 32

_VOLATILE: Final = re.compile(
    r"""
      \b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b                         # UUID
    | \b\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?\b             # ISO 8601 timestamp
    | \b\d\d:\d\d:\d\d(?:[.,]\d+)?\b                                                      # time of day
    | \b0x[0-9a-f]{6,}\b                                                                    # address of memory
    | \b[0-7](?=[0-9a-z]*[a-z])[0-9a-hjkmnp-tv-z]{25}\b                                     # ULID
    | \b(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,}\b                                          # long hex
    | \b1[5-9]\d{8}(?:\d{3}|\d{6}|\d{9})?(?:\.\d+)?\b                                      # Unix time: s, ms, us, ns
    | \b\d+(?:\.\d+)?(?:ms|us|µs|ns)\b | \b\d+\.\d+s\b                                    # duration
    | (?<=attempt)[=:\#]*\d+ | (?<=retry)[=:\#]*\d+ | (?<=try)[=:\#]*\d+                   # attempt counter
    """,
    re.VERBOSE | re.IGNORECASE,
)
_DIGIT: Final = re.compile(r"\d")
_BARE_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?(?:/\d+)?")
_COUNTERS: Final = frozenset(["attempt", "attempts", "retry", "retries", "try", "tries", "iteration", "#"])
_UNITS: Final = frozenset(["ms", "us", "µs", "ns", "s", "sec", "secs", "second", "seconds"])
_DIGESTS: Final = frozenset(["sha1", "sha256", "sha512", "md5", "commit", "digest", "etag"])
_PUNCTUATION: Final = "()[]{}<>.,;:!?#=\"'`*"
_KEY_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_KEPT_WORDS: Final = frozenset(
    [
        "file",
        "filename",
        "path",
        "page",
        "offset",
        "line",
        "lines",
        "cursor",
        "query",
        "url",
        "uri",
        "limit",
        "start",
        "end",
    ]
)
_MASKED_WORDS: Final = frozenset(["nonce", "uuid", "guid", "ulid", "timestamp", "ts", "attempt", "retry", "retries"])
_MASKED_KEYS: Final = frozenset(
    [
        "request_id",
        "req_id",
        "trace",
        "trace_id",
        "span_id",
        "correlation_id",
        "idempotency_key",
        "call_id",
        "tool_call_id",
        "run_id",
        "message_id",
        "invocation_id",
        "execution_id",
        "transaction_id",
    ]
)


def exact_hash(text: str) -> str:
    """64-bit BLAKE2b of the UTF-8 text, 16 hex digits."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _mask_word(words: list[str], i: int) -> str:
    """Mask what is volatile in a word that has a digit; its neighbours tell counters, durations and digests."""
    word = words[i]
    before = words[i - 1].strip(_PUNCTUATION).lower() if i else ""
    if before in _DIGESTS or word.lower().startswith(("sha256:", "sha1:", "md5:", "sha512:")):
        return word
    number = _BARE_NUMBER.fullmatch(word.strip(_PUNCTUATION))
    if number and before in _COUNTERS:
        return word.replace(number.group(), "<*>")
    if number and i + 1 < len(words):
        unit = words[i + 1].strip(_PUNCTUATION).lower()
        if unit in _UNITS and ("." in word or unit in ("ms", "us", "µs", "ns")):
            return word.replace(number.group(), "<*>")
    return _VOLATILE.sub("<*>", word)


def _mask(text: str) -> str:
    """A text with its volatile words masked and its white space folded."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    words = text.split()
    if _DIGIT.search(text):
        find = _DIGIT.search
        for i, word in enumerate(words):
            if not word.isalpha() and find(word):
                words[i] = _mask_word(words, i)
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


def _key_kind(key: str) -> str:
    words = [w.lower() for w in _KEY_WORDS.findall(key)]
    if any(w in _KEPT_WORDS for w in words):
        return "kept"
    if "_".join(words) in _MASKED_KEYS or any(w in _MASKED_WORDS for w in words):
        return "masked"
    return ""


def _canonical(value: Any, depth: int, kept: bool) -> Any:
    if isinstance(value, str):
        nested = _parse(value) if depth < _MAX_DEPTH else None
        if nested is not None:
            return _canonical(nested, depth + 1, kept)
        return unicodedata.normalize("NFC", value) if kept else _mask(value)
    if isinstance(value, dict):
        if depth >= _MAX_DEPTH:
            return "<deep>"
        out = {}
        for key in sorted(value, key=str):
            kind = _key_kind(str(key))
            out[str(key)] = "<*>" if kind == "masked" else _canonical(value[key], depth + 1, kind == "kept")
        return out
    if isinstance(value, (list, tuple)):
        return "<deep>" if depth >= _MAX_DEPTH else [_canonical(v, depth + 1, kept) for v in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def canonical_text(value: Any) -> str:
    """The canonical form of a text or of a JSON-like value."""
    canonical = _canonical(value, 0, False)
    if isinstance(canonical, str):
        return canonical
    return json.dumps(canonical, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=str)


@lru_cache(maxsize=1)
def _lanes() -> list[list[int]]:
    """For each byte of a hash and each value of it, its bits as 16-bit lanes: 64 counters add up in one addition."""
    one = [sum(((byte >> bit) & 1) << (16 * bit) for bit in range(8)) for byte in range(256)]
    return [[lanes << (128 * position) for lanes in one] for position in range(8)]


def simhash(text: str) -> str:
    """64-bit SimHash (Charikar 2002) over shingles of three words, 16 hex digits."""
    words = text.split()
    last = max(1, len(words) - 2)
    one_in = 1 + last // NEAR_MAX_SHINGLES
    starts: Sequence[int] = range(last)
    if one_in > 1:
        starts = [i for i in starts if crc32(words[i].encode("utf-8", "surrogatepass")) % one_in == 0] or starts
    t0, t1, t2, t3, t4, t5, t6, t7 = _lanes()
    total = 0
    for i in starts:
        shingle = " ".join(words[i : i + 3]).encode("utf-8", "surrogatepass")
        a, b, c, d, e, f, g, h = hashlib.blake2b(shingle, digest_size=8).digest()
        total += t0[a] + t1[b] + t2[c] + t3[d] + t4[e] + t5[f] + t6[g] + t7[h]
    half = len(starts) / 2
    value = sum(1 << bit for bit in range(64) if ((total >> (16 * bit)) & 0xFFFF) > half)
    return f"{value:016x}"


def hamming(a: str, b: str) -> int:
    """Number of bits in which two 64-bit hashes (hex) differ."""
    return (int(a, 16) ^ int(b, 16)).bit_count()


def alike(a: str, a_size: int, b: str, b_size: int, max_distance: int) -> bool:
    """Whether two texts are near: SimHashes within `max_distance` bits, and lengths within half a percent (8 characters
    at least), since a history that grows by a turn is near in bits and yet no repetition."""
    if not a or not b or abs(a_size - b_size) > max(8, a_size // 200):
        return False
    return hamming(a, b) <= max_distance


def fingerprint(value: Any, *, truncated: bool = False) -> Fingerprint:
    """Fingerprint of a text or of a JSON-like value.

    Args:
        value: text, or what JSON gives: dict, list, number, bool, None. Anything else counts as its `str`.
        truncated: the value was cut somewhere on its way, so it has no identity.
    """
    from spanfuse_schemas.call import Fingerprint

    raw = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    if truncated:
        return Fingerprint(size=len(raw))
    canonical = canonical_text(value)
    near = simhash(canonical) if len(canonical) >= NEAR_MIN_CHARS else ""
    return Fingerprint(exact=exact_hash(raw), canon=exact_hash(canonical), near=near, size=len(raw))


def _combine(parts: list[tuple[str, str, str]]) -> tuple[str, str]:
    """Exact and canonical hash of tagged hashes; empty where one of them is unknown."""
    if not all(exact and canon for _, exact, canon in parts):
        return "", ""
    return (
        exact_hash("\n".join(f"{tag} {exact}" for tag, exact, _ in parts)),
        exact_hash("\n".join(f"{tag} {canon}" for tag, _, canon in parts)),
    )


def input_print(messages: Iterable[Message]) -> Fingerprint | None:
    """Fingerprint of all new input messages of a call together; `None` where there are none.

    Order counts, except among the results of the tool calls of one turn, which come back in any order.
    """
    from spanfuse_schemas.call import Fingerprint

    found = list(messages)
    if not found:
        return None
    if len(found) > 1:
        found.sort(key=lambda m: m.print.canon if m.role == "tool" else "")
    exact, canon = _combine([("tool" if m.role == "tool" else "text", m.print.exact, m.print.canon) for m in found])
    near = found[0].print.near if len(found) == 1 else ""
    return Fingerprint(exact=exact, canon=canon, near=near, size=sum(m.print.size for m in found))


def action_print(actions: Iterable[Action]) -> Fingerprint | None:
    """Fingerprint of the actions of one turn together, in any order; `None` where there are none."""
    from spanfuse_schemas.call import Fingerprint

    found = sorted(actions, key=lambda a: (a.tool, a.print.canon))
    if not found:
        return None
    exact, canon = _combine([(a.tool or "text", a.print.exact, a.print.canon) for a in found])
    near = found[0].print.near if len(found) == 1 else ""
    return Fingerprint(exact=exact, canon=canon, near=near, size=sum(a.print.size for a in found))

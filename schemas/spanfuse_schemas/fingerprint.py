"""Fingerprints: how two texts are told equal, equal but for volatile parts, or alike, without keeping either.

The format is part of the wire contract: ingest, the Guard and agents in other languages must compute the same values.
A text has three hashes:

- *exact*, of its raw characters;
- *canonical*, of its canonical form (`spanfuse_schemas.canonical`), in which what changes from one attempt to the next is
  masked;
- *near*, a SimHash of the canonical text where that is long enough for a distance to mean something.

A truncated text has no identity: its hashes are empty and equal nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from spanfuse_schemas.call import Fingerprint
from spanfuse_schemas.canonical import canonical_text, to_json

if TYPE_CHECKING:
    from spanfuse_schemas.call import Action, Message

NEAR_MIN_CHARS: Final = 256
"""Shortest canonical text with a SimHash, characters. One changed word of 40 moves about 7 of 64 bits: below this length
a distance of a few bits can only come from equal texts, which the canonical hash finds already."""

NEAR_MAX_WORDS: Final = 4_096
"""Words hashed at most; of longer texts a sample chosen by hash, so that equal texts choose equal words."""

_MAX_CACHED: Final = 64
"""Longest word whose hash is remembered, characters: bounds the memory of the cache."""
_MAX_WORDS: Final = 16_384
"""Words whose hashes are remembered."""


def exact_hash(text: str) -> str:
    """64-bit BLAKE2b of the UTF-8 text, 16 hex digits."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


class _WordHashes(dict[str, bytes]):
    """Hashes of words, each computed once, bounded. A look-up costs a third of a cached function's."""

    def __missing__(self, word: str) -> bytes:
        found = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        if len(word) <= _MAX_CACHED:
            if len(self) >= _MAX_WORDS:
                self.clear()  # one atomic step: other threads may be reading
            self[word] = found
        return found


_HASHES: Final = _WordHashes()


def _sample(words: list[str]) -> list[str]:
    """Of a very long text, the words with hashes of one kind."""
    one_in = 1 + len(words) // NEAR_MAX_WORDS
    chosen = [w for w in words if crc32(w.encode("utf-8", "surrogatepass")) % one_in == 0]
    return (chosen if len(chosen) > 2 else words)[:NEAR_MAX_WORDS]


def _lanes(pattern: int, count: int) -> int:
    """`count` lanes of 64 bits with the same pattern in each."""
    return int.from_bytes(pattern.to_bytes(8, "little") * count, "little")


def _rotate(lanes: int, bits: int, count: int) -> int:
    """Each of `count` 64-bit lanes rotated left."""
    high = _lanes(2**64 - 2**bits, count)
    return ((lanes << bits) & high) | ((lanes >> (64 - bits)) & ~high)


def _sum(a: list[int], b: list[int]) -> list[int]:
    """Add numbers held as bit planes, lowest first, lane by lane."""
    planes, carry = [], 0
    for x, y in zip(a, b, strict=True):
        half = x ^ y
        planes.append(half ^ carry)
        carry = (x & y) | (half & carry)
    return [*planes, carry]


def _majority(lanes: int, count: int) -> int:
    """The bits set in more than half of `count` 64-bit lanes: pairs of halves are added until one lane of sums is left."""
    planes, left = [lanes], count
    while left > 1:
        left = (left + 1) // 2
        low = (1 << (64 * left)) - 1
        planes = _sum([p & low for p in planes], [p >> (64 * left) for p in planes])
    above, equal = 0, 2**64 - 1
    for weight in reversed(range(len(planes))):
        if (count // 2 >> weight) & 1:
            equal &= planes[weight]
        else:
            above |= equal & planes[weight]
            equal &= ~planes[weight]
    return above


def simhash(text: str) -> str:
    """64-bit SimHash (Charikar 2002) over shingles of three words, 16 hex digits.

    The hash of a shingle is `a ^ rotl(b, 21) ^ rotl(c, 42)` of the BLAKE2b-64 hashes, little-endian, of its words; a text
    of fewer words has one shingle. All shingles are computed at once, each in a 64-bit lane of one big integer.
    """
    words = text.split()
    if len(words) > NEAR_MAX_WORDS:
        words = _sample(words)
    count = max(1, len(words) - 2)
    first = int.from_bytes(b"".join(map(_HASHES.__getitem__, words)), "little")
    shingles = first ^ _rotate(first >> 64, 21, count) ^ _rotate(first >> 128, 42, count)
    return f"{_majority(shingles & ((1 << (64 * count)) - 1), count):016x}"


def hamming(a: str, b: str) -> int:
    """Number of bits in which two 64-bit hashes (hex) differ."""
    return (int(a, 16) ^ int(b, 16)).bit_count()


def alike(known: str, known_size: int, new: str, new_size: int, max_distance: int) -> bool:
    """Whether a new text is near a known one: SimHashes within `max_distance` bits, and about as long: at most 8 characters
    longer, since a history that grows by a turn is near in bits and yet no repetition, and at most half a percent shorter."""
    if not known or not new or not -8 <= known_size - new_size <= max(8, known_size // 200):
        return False
    return hamming(known, new) <= max_distance


def fingerprint(value: Any, *, truncated: bool = False) -> Fingerprint:
    """Fingerprint of a text or of a JSON-like value.

    Args:
        value: text, or what JSON gives: dict, list, number, bool, None. Anything else counts as its `str`. What cannot be
            written as JSON (cycles, nesting without end) has no identity.
        truncated: the value was cut somewhere on its way, so it has no identity.
    """
    try:
        raw = value if isinstance(value, str) else to_json(value)
    except ValueError:
        return Fingerprint()
    return Fingerprint(size=len(raw)) if truncated else print_of_raw(value, raw)


def print_of_raw(value: Any, raw: str, exact: str = "") -> Fingerprint:
    """Fingerprint of a value whose raw text is known, its own or its JSON (`to_json`), and maybe the hash of that."""
    canonical = _canonical_or_raw(value, raw)
    exact = exact or exact_hash(raw)
    near = simhash(canonical) if len(canonical) >= NEAR_MIN_CHARS else ""
    return Fingerprint(
        exact=exact, canon=exact if canonical == raw else exact_hash(canonical), near=near, size=len(raw)
    )


def _canonical_or_raw(value: Any, raw: str) -> str:
    try:
        return canonical_text(value)
    except (ValueError, RecursionError):
        return raw


def _joined(parts: list[tuple[str, Fingerprint]]) -> Fingerprint:
    """One fingerprint of tagged ones. Its identity is unknown where one of theirs is; only a single one has a near hash."""
    if not all(found.exact for _, found in parts):
        return Fingerprint(size=sum([found.size for _, found in parts]))
    exact = "\n".join([f"{tag} {found.exact}" for tag, found in parts])
    canon = "\n".join([f"{tag} {found.canon}" for tag, found in parts])
    hashed = exact_hash(exact)
    hashes = hashed, hashed if canon == exact else exact_hash(canon)
    if len(parts) == 1:
        return parts[0][1].rehashed(*hashes)
    return Fingerprint(exact=hashes[0], canon=hashes[1], size=sum([found.size for _, found in parts]))


def input_print(messages: Iterable[Message]) -> Fingerprint | None:
    """Fingerprint of all new input messages of a call together; `None` where there are none.

    Order counts, except among the results of the tool calls of one turn, which come back in any order.
    """
    found = list(messages)
    if not found:
        return None
    if len(found) > 1:
        found.sort(key=lambda m: (m.print.canon, m.print.exact) if m.role == "tool" else ("", ""))
    return _joined([("tool" if m.role == "tool" else "text", m.print) for m in found])


def action_print(actions: Iterable[Action]) -> Fingerprint | None:
    """Fingerprint of the actions of one turn together, in any order; `None` where there are none."""
    found = list(actions)
    if not found:
        return None
    if len(found) > 1:
        found.sort(key=lambda a: (a.tool, a.print.canon, a.print.exact))
    return _joined([(a.tool or "text", a.print) for a in found])

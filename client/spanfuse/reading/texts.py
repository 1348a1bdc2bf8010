"""Texts and values: their fingerprints, and whether they were cut or tell of a failure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, TypeGuard

from spanfuse_schemas import Fingerprint
from spanfuse_schemas.fingerprint import exact_hash, fingerprint, print_of_raw
from spanfuse_schemas.wording import texts_of

_ERROR_TEXT: Final = re.compile(
    r"""\s*["'\[<(*]*\s*(?:
        traceback\b
      | (?:[\w.]*(?:error|exception)|fatal|failure)\s*(?:[:\])>\n(]|$)
      | error\s+(?:(?:execut|call|invok|runn|process|pars|read|writ|fetch|open|load|creat|access|connect|gett|search|
               validat|delet|edit|updat|apply|decod)ing|occurred|while|in|during|at|from|code|\d+)\b
      | tool_use_error
      | [1-9]\d*\s(?:tests?\s)?(?:failed|failures?|errors?)\b
    )""",
    re.VERBOSE | re.IGNORECASE,
)
_CUT_MARK: Final = re.compile(
    r"""(?:
        [\[<({]\W*(?:[\w-]+\s){0,3}?(?:truncated|clipped|(?:chars|characters|bytes|tokens)\ omitted)\b
        [^\])>}]{0,120}[\])>}]
      | (?:\.{3}|…)\s*(?:truncated|clipped)
    )\W*\Z""",
    re.VERBOSE | re.IGNORECASE,
)
_DIGEST: Final = re.compile(r"\b(?:sha-?(?:1|256|512)|md5|blake2b?|crc32)\W{0,3}[0-9a-f]{8,}", re.IGNORECASE)
_MARK_CHARS: Final = 200
"""A truncation mark is looked for in this many characters at the end of a text."""

_ECHO_MIN_CHARS: Final = 8
"""A shorter line, characters, is in the action by chance."""
_ECHO_MAX_CHARS: Final = 1_024
"""What is longer is not looked at, characters."""

_HIDDEN: Final = frozenset(
    {
        *("__REDACTED__", "[REDACTED]", "<REDACTED>", "REDACTED", "readacted", "<elided>"),
        *("<not serializable>", "<not specified>", "redacted-by-litellm"),
    }
)
"""What instrumentations write in place of a content that is not to be seen: all of it looks the same."""
_SCRUBBED: Final = "[Scrubbed due to "
"""What Logfire writes in place of a value whose key or text speaks of secrets, or of a session."""
_BLOCK_KEYS: Final = frozenset({"type", "text", "annotations", "meta"})
"""Of a block that is nothing but its text."""
_RAW: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
"""The raw text of a JSON-like value, as `fingerprint` hashes it."""
_MEMO: Final[dict[str, Fingerprint]] = {}
_MEMO_SIZE: Final = 4096
"""Fingerprints remembered, by exact hash."""
MAX_CHARS: Final = 65_536
"""Of longer texts only the ends are brought into canonical form, characters: it takes about a microsecond for each."""
_MEMO_MIN_CHARS: Final = 256
"""Shorter texts are hashed as fast as looked up."""


def is_hidden(value: Any) -> bool:
    """Whether something stands in place of a content that is not to be seen."""
    return isinstance(value, str) and (value in _HIDDEN or value.startswith(_SCRUBBED))


def tool_arguments(value: Any) -> Any:
    """The one form of a tool's arguments or result: JSON text of an object or array is the same as what it says, and so is a
    single block of text or JSON, in which MCP and Bedrock wrap a result."""
    found = _loaded(value)
    if not isinstance(found, list) or len(found) != 1 or not isinstance(found[0], Mapping):
        return found
    block = found[0]
    if "json" in block:
        return block["json"] if len(block) == 1 else found
    text = block.get("text")
    return _loaded(text) if isinstance(text, str) and block.keys() <= _BLOCK_KEYS else found


def _loaded(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    bare = value.strip()
    if not bare or (bare[0], bare[-1]) not in (("{", "}"), ("[", "]")):
        return value
    try:
        return json.loads(bare)
    except (ValueError, RecursionError):
        return value


def is_truncated(text: str) -> bool:
    """Whether a text ends in a mark that it was cut, and carries no digest of the whole."""
    tail = text[-_MARK_CHARS:]
    return _may_be_cut(tail) and bool(_CUT_MARK.search(tail)) and not _DIGEST.search(tail)


def _may_be_cut(text: str) -> bool:
    """False only where none of the words of `_CUT_MARK` is there: nearly always, and without a regular expression."""
    low = text.lower()
    return "truncated" in low or "pped" in low or "tted" in low


def _holds_cut(value: Any, raw: str) -> bool:
    """Whether a text somewhere in a JSON-like value was cut."""
    return _may_be_cut(raw) and any(map(is_truncated, texts_of(value)))


def cut_json(text: str) -> bool:
    """Whether a text begins as a JSON object or array of texts, and does not end as one."""
    bare = text.strip()
    return bare[:2] in ('{"', '["', "[{") and bare[-1] not in "}]"


def looks_failed(result: Any) -> bool:
    """Whether the result of a tool, text or parsed JSON, clearly begins as an error."""
    if isinstance(result, str):
        return bool(_ERROR_TEXT.match(result[:400]))
    if isinstance(result, Mapping):
        return bool(result.get("error")) or flagged(result)
    return False


def print_of(value: Any) -> Fingerprint:
    """Fingerprint of a text or JSON-like value; without identity where it is truncated, hidden, or cannot be serialised.

    Long ones are remembered by their exact hash: what a call did comes back as what the next one answers.
    """
    try:
        raw = value if isinstance(value, str) else _RAW(value)
        if is_hidden(raw) or (is_truncated(raw) if isinstance(value, str) else _holds_cut(value, raw)):
            return Fingerprint(size=len(raw))
        return print_of_raw(value, raw) if len(raw) < _MEMO_MIN_CHARS else _remembered(value, raw)
    except (ValueError, RecursionError, TypeError):
        return Fingerprint()


def may_echo(result: Any) -> TypeGuard[str]:
    """Whether a result is a text of such a length that it is asked whether it echoes its action."""
    return isinstance(result, str) and _ECHO_MIN_CHARS <= len(result) <= _ECHO_MAX_CHARS


def echoes(result: Any, arguments: Any, before: Any = "") -> bool:
    """Whether each line of a short text was said by the action that it answers, one at least, or by the text before it."""
    if not may_echo(result):
        return False
    said = "\n".join(texts_of(tool_arguments(arguments)))
    lines = [line for line in map(str.strip, result.splitlines()) if line]
    echoed = [line for line in lines if len(line) >= _ECHO_MIN_CHARS and line in said]
    if not echoed or len(echoed) == len(lines):
        return bool(echoed)
    known = set(map(str.strip, before.splitlines())) if isinstance(before, str) else set()
    return all(line in known or line in echoed for line in lines)


def _remembered(value: Any, raw: str) -> Fingerprint:
    exact = exact_hash(raw)
    found = _MEMO.get(exact)
    if found is None:
        found = print_of_raw(value, raw, exact) if len(raw) <= MAX_CHARS else _of_ends(raw, exact)
        if len(_MEMO) >= _MEMO_SIZE:
            _MEMO.clear()  # one atomic step: other threads may be reading
        _MEMO[exact] = found
    return found


def _of_ends(raw: str, exact: str) -> Fingerprint:
    """Of a very long text: its ends in canonical form, its middle by an exact digest, which is never masked."""
    half = MAX_CHARS // 2
    ends = fingerprint(f"{raw[:half]} sha256 {exact_hash(raw[half:-half])} {raw[-half:]}")
    return Fingerprint(exact=exact, canon=ends.canon, near=ends.near, size=len(raw))


def flagged(result: Mapping[str, Any]) -> bool:
    """Whether the provider marked a result as a failure."""
    return result.get("is_error") is True or result.get("isError") is True or result.get("status") == "error"

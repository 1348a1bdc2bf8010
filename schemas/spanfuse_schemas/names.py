"""The one form of a name or an id: a span and a Guard that is asked speak of the same session only if both use it."""

from __future__ import annotations

from typing import Final

from spanfuse_schemas.fingerprint import exact_hash

MAX_NAME: Final = 256
"""Longest name or id, characters: keys, topics and tables carry them."""


def normal_name(text: str) -> str:
    """A name without white space around it and without what UTF-8 cannot hold, of at most `MAX_NAME` characters.

    The end of a longer one is replaced by a hash of the whole, so that two long names stay two.
    """
    text = text.strip()
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= MAX_NAME else f"{text[: MAX_NAME - 17]}~{exact_hash(text)}"


def normal_key(key: str) -> str:
    """The key of a breaker, such as `session:checkout-42`, with its name in that form."""
    scope, colon, name = key.partition(":")
    return f"{scope}{colon}{normal_name(name)}"

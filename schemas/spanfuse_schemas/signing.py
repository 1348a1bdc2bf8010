"""Signatures of the records of the control topic: who may decide is told from who may only write.

A signature is `<key id>:<hex>`, an HMAC-SHA256 over the canonical JSON of the record without `signature`: keys sorted, no white
space, everything beyond ASCII escaped, as `json.dumps(record, sort_keys=True, separators=(",", ":"))` writes it. It is made and
checked over the JSON and not over a model, so that a reader of an earlier version can check fields that it does not know.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable
from typing import Any, Final

MIN_KEY_CHARS: Final = 16
"""Shortest secret that is taken, characters: who reads the topic can try shorter ones until one fits a signature."""


class UnsignedError(ValueError):
    """A record without a signature of a key that is known, or one that was changed after it was signed."""


class Keyring:
    """Keys to sign and verify with. Several are for rotation: the first signs, all verify.

    Args:
        secrets: of `MIN_KEY_CHARS` characters at least; white space around them is no part of them, and empty ones are none.

    Raises:
        ValueError: for a secret that is too short. It does not say which.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        stripped = [secret.strip() for secret in secrets]
        keys = [secret.encode() for secret in stripped if secret]
        if any(len(secret) < MIN_KEY_CHARS for secret in stripped if secret):
            raise ValueError(f"a signing key has at least {MIN_KEY_CHARS} characters")
        self._keys = {key_id(key): key for key in keys}

    def __bool__(self) -> bool:
        """Whether there is a key."""
        return bool(self._keys)

    def __repr__(self) -> str:
        return f"Keyring({', '.join(self._keys)})"

    def signed(self, record: bytes) -> bytes:
        """A record with the signature of the first key; without a key as it is."""
        for name, key in self._keys.items():
            fields: dict[str, Any] = json.loads(record)
            fields.pop("signature", None)
            return _canonical({**fields, "signature": f"{name}:{_mac(key, fields)}"})
        return record

    def verified(self, record: bytes | str) -> bytes:
        """A record that one of the keys has signed, in its canonical form: no other is what was signed.

        Raises:
            UnsignedError: it is not signed so, or it is no JSON object at all.
        """
        try:
            fields = json.loads(record)
            signature = fields.pop("signature")
            name, _, mac = signature.partition(":")
            good = hmac.compare_digest(_mac(self._keys[name], fields).encode(), mac.encode())
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise UnsignedError("no record with a signature of a known key") from error
        if not good:
            raise UnsignedError("the record is not what was signed")
        return _canonical(fields)


def key_id(key: bytes) -> str:
    """The public name of a key, 8 hex digits, by which a reader finds it among several."""
    return hmac.digest(key, b"spanfuse signing key id", hashlib.sha256).hex()[:8]


def _mac(key: bytes, fields: dict[str, Any]) -> str:
    return hmac.digest(key, _canonical(fields), hashlib.sha256).hex()


def _canonical(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()

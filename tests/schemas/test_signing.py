"""Who has no key can neither make a record nor change one."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import pytest

from spanfuse_schemas import Decision, Evidence
from spanfuse_schemas.signing import Keyring, UnsignedError

OLD, NEW = "the key of last year", "the key of this year"
KEYS = Keyring([NEW, OLD])
BLOCK = Decision(
    key="session:naïve \u2028 ☃",
    state="open",
    action="block",
    rule="cycle",
    evidence=Evidence(value=0.1, threshold=1e22),
    issued_at_ns=1_800_000_000_000_000_001,
    epoch=3,
)


def verified(record: bytes, keys: Keyring = KEYS) -> Any:
    return Decision.from_json(keys.verified(record))


def test_what_was_signed_is_what_is_read() -> None:
    assert verified(KEYS.signed(BLOCK.to_json())) == BLOCK


def test_a_signature_names_its_key_and_is_an_hmac_of_the_canonical_json() -> None:
    """Whoever writes a verifier in another language finds here all it takes."""
    fields = json.loads(KEYS.signed(BLOCK.to_json()))
    name, _, mac = fields.pop("signature").partition(":")
    text = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    assert mac == hmac.new(NEW.encode(), text, hashlib.sha256).hexdigest()
    assert name == hmac.new(NEW.encode(), b"spanfuse signing key id", hashlib.sha256).hexdigest()[:8]


@pytest.mark.parametrize(
    "change",
    [
        {"action": "allow"},
        {"epoch": 4},
        {"key": "session:other"},
        {"expires_at_ns": 1},
        {"unknown": 1},
        {"signature": ""},
    ],
    ids=lambda change: next(iter(change)),
)
def test_no_field_can_be_changed_or_added(change: dict[str, Any]) -> None:
    with pytest.raises(UnsignedError):
        KEYS.verified(json.dumps(json.loads(KEYS.signed(BLOCK.to_json())) | change))


@pytest.mark.parametrize(
    "record",
    [
        b"", b"{}", b"[]", b"null", b"7", b"\xff", b'{"signature": 7}', b'{"signature": ":"}', b'{"signature": "a:b"}',
        b'{"signature": null, "epoch": NaN}', b"[" * 100_000, b'{"signature":"' + b"9" * 5000,
        b'{"epoch":' + b"9" * 5000 + b"}",
    ],
    ids=range(13),
)  # fmt: skip
def test_what_is_no_signed_record_is_one_kind_of_error(record: bytes) -> None:
    with pytest.raises(UnsignedError):
        KEYS.verified(record)


def test_a_field_that_is_written_twice_is_read_as_it_was_signed() -> None:
    signed = KEYS.signed(BLOCK.to_json())
    assert verified(signed.replace(b"{", b'{"action":"allow",', 1)) == BLOCK
    with pytest.raises(UnsignedError):
        KEYS.verified(signed[:-1] + b',"action":"allow"}')


def test_fields_of_a_later_version_are_signed_as_well_and_then_ignored() -> None:
    later = json.dumps(json.loads(BLOCK.to_json()) | {"of_a_later_version": [1.0, {"b": 1, "a": None}]}).encode()
    assert verified(KEYS.signed(later)) == BLOCK


def test_keys_are_rotated_one_after_the_other() -> None:
    """Readers get the new key first, then the writer, then the old one is taken away."""
    before, after = Keyring([OLD]).signed(BLOCK.to_json()), KEYS.signed(BLOCK.to_json())
    assert verified(before) == verified(after) == BLOCK
    assert verified(after, Keyring([NEW])) == BLOCK
    with pytest.raises(UnsignedError):
        Keyring([NEW]).verified(before)


def test_signing_again_replaces_the_signature() -> None:
    assert KEYS.signed(KEYS.signed(BLOCK.to_json())) == KEYS.signed(BLOCK.to_json())


def test_without_a_key_nothing_is_signed() -> None:
    assert Keyring(["", " "]).signed(BLOCK.to_json()) == BLOCK.to_json()
    assert not Keyring(["", " "])


def test_a_key_that_could_be_guessed_is_refused_and_none_is_shown() -> None:
    with pytest.raises(ValueError, match="at least 16 characters") as refused:
        Keyring([NEW, "hunter2"])
    assert "hunter2" not in str(refused.value)
    assert NEW not in repr(KEYS)

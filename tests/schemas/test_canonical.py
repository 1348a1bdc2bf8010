"""What is volatile and masked, what is identity and kept: in texts and in JSON, by value, by key and by neighbour."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanfuse_schemas.canonical import MASK, canonical_text

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)


def shuffled(value: Any) -> Any:
    """The same value with all keys in another order."""
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(list(value))}
    return [shuffled(v) for v in value] if isinstance(value, list) else value


@given(st.dictionaries(st.text(), values, max_size=5))
def test_the_order_of_keys_and_white_space_in_json_do_not_matter(value: dict[str, Any]) -> None:
    pretty = json.dumps(shuffled(value), indent=3)
    assert canonical_text(value) == canonical_text(shuffled(value)) == canonical_text(pretty)


@given(st.lists(st.sampled_from(["a", "b", "c", 1, 2.5, True, None]), min_size=2, max_size=6))
def test_the_order_of_an_array_matters(items: list[Any]) -> None:
    other = [*items[1:], items[0]]
    assert (canonical_text(items) == canonical_text(other)) == (json.dumps(items) == json.dumps(other))


@pytest.mark.parametrize(("a", "b"), [("1.0", "1"), ("1e3", "1000"), ("-0.0", "0"), ("0.50", "0.5"), ("1E2", "100.00")])
def test_numbers_in_json_are_compared_by_value(a: str, b: str) -> None:
    assert canonical_text(f'{{"n": {a}}}') == canonical_text(f'{{"n":{b}}}')


def test_a_number_is_not_its_text_nor_a_boolean() -> None:
    assert len({canonical_text({"n": value}) for value in (1, "1", True, None, [1])}) == 5


@given(st.integers(0, 1_400_000_000), st.integers(0, 1_400_000_000))
def test_numbers_are_identity(a: int, b: int) -> None:
    for write in (
        "row {}",
        "port {}",
        "issue #{}",
        "v1.{}.0",
        "step {} of 9",
        '{{"n": {}}}',
        "{}",
        "x{}y",
        "in line {}:",
    ):
        assert (canonical_text(write.format(a)) == canonical_text(write.format(b))) == (a == b)


def test_white_space_and_composed_characters_are_folded() -> None:
    assert canonical_text("  Caf\u00e9\n\n au\tlait ") == canonical_text("Cafe\u0301 au lait")


IDENTITY = [
    "page 3",
    "line 42, column 7",
    "2026-11-29",
    "v1.2.3",
    "Python 3.11.7",
    "127.0.0.1:8787",
    "at 14:45",
    "$12.50",
    "5s",
    "sleep 30 seconds",
    "issue #3",
    "#3",
    "entry=5",
    "country3",
    "the 3rd house",
    "max_attempts=3",
    "request_handler2",
    "call_function1",
    "trace_route2",
    "order_12345678",
    "cus_9s6XKzkNRiz8i3",
    "commit 8f3a9c2e1b",
    "git show 8f3a9c2e",
    "git checkout 1b7d4e5f8a9b",
    "sha1 8f3a9c2e1b7d4e5f8a9b0c1d2e3f4a5b6c7d8e9f",
    "sha256:9f86d081884c7d65",
    "ETag: 33a64df551425fcc",
    "7 of 9 tests failed",
    "deadbeef",
    "20261129",
    "1555123456",
    "call me at 1555123456",
    "the phone number 1555123456",
    "customer=1555123456",
    "1555123456.50",
]


@pytest.mark.parametrize("text", IDENTITY)
def test_what_says_what_or_where_is_kept(text: str) -> None:
    assert canonical_text(text) == text


VOLATILE = {
    "ref 8f3a9c2e-1b7d-4e5f-8a9b-0c1d2e3f4a5b": "ref <*>",
    "(8F3A9C2E-1B7D-4E5F-8A9B-0C1D2E3F4A5B)": "(<*>)",
    "id 9f86d081884c7d65": "id <*>",
    "01ARZ3NDEKTSV4RRFFQ69G5FAV": "<*>",
    "2026-11-29T14:44:35.123Z": "<*>",
    "2026-11-29T14:44:35+02:00,": "<*>,",
    "20261129T144435Z": "<*>",
    "2026-11-29 14:44:35,123 INFO": "2026-11-29 <*> INFO",
    "1760000000123": "<*>",
    "created at 1760000000, then": "created at <*>, then",
    "Timestamp: 1760000000": "Timestamp: <*>",
    "the time is 1760000000.5": "the time is <*>",
    "1760000000 UTC": "<*> UTC",
    "{'createdAt': 1760000000}": "{'createdAt': <*>}",
    "https://a.b/c?expires=1760000000&d=1": "https://a.b/c?expires=<*>&d=1",
    "1760000000.123": "<*>",
    "1760000000123456789": "<*>",
    "took 153ms": "took <*>",
    "took 153 ms": "took <*> ms",
    "in 0.53s": "in <*>",
    "1.5 seconds": "<*> seconds",
    "<Agent object at 0x7f3a2b1c>": "<Agent object at <*>>",
    "attempt 3": "attempt <*>",
    "(attempt 3)": "(attempt <*>)",
    "Attempt #3:": "Attempt #<*>:",
    "attempt # 3 of 5": "attempt # <*> of 5",
    "attempt no. 3": "attempt no. <*>",
    "Retry 2/5": "Retry <*>",
    "attempt=3": "<*>",
    "retry_count=3": "<*>",
    "3rd attempt": "<*> attempt",
    "Retry-After: 17": "Retry-After: <*>",
    "req_8f3a9c2e done": "<*> done",
    "req_011CQmZbVzDgBkYnEnMSxZPq": "<*>",
    "call_abc123": "<*>",
    "call_62136354AbCdEf": "<*>",
    "toolu_01A09q90qw90lq917835lq9": "<*>",
    "chatcmpl-9sK3xYzQ2": "<*>",
    "request_id=abc1": "<*>",
    "{'request_id': 'abc1', 'page': 2}": "{'request_id': '<*>', 'page': 2}",
    "X-Request-Id: 17x": "X-Request-Id: <*>",
    "pid 4242": "pid <*>",
    "/tmp/tmpab12cd3f/out.txt": "/tmp/<*>/out.txt",
}


@pytest.mark.parametrize("text", VOLATILE)
def test_what_changes_from_one_attempt_to_the_next_is_masked(text: str) -> None:
    assert canonical_text(text) == VOLATILE[text]


@given(st.text(), st.sampled_from(sorted(VOLATILE)), st.text())
def test_the_canonical_form_of_a_canonical_text_is_itself(before: str, volatile: str, after: str) -> None:
    once = canonical_text(f"{before} {volatile} {after}")
    assert canonical_text(once) == once


CHANGING = [1, 2.5, "abc", "a-17", str(uuid.UUID(int=7)), "2026-01-01T00:00:00Z", None]


@pytest.mark.parametrize(
    "key",
    ["request_id", "requestId", "X-Request-ID", "trace", "traceId", "nonce", "attempt", "retryCount", "retry_after"],
)
def test_values_of_keys_that_name_one_request_are_masked(key: str) -> None:
    for value in CHANGING[:-1]:
        assert canonical_text({key: value, "q": 1}) == canonical_text({key: "other", "q": 1})


KEPT_KEYS = [
    "file",
    "filePath",
    "page",
    "page_token",
    "offset",
    "line",
    "cursor",
    "nextCursor",
    "query",
    "url",
    "since",
    "end",
]


@pytest.mark.parametrize("key", [*KEPT_KEYS, "start_time", "commit", "sha256", "order_id", "userId", "thread_ts"])
def test_values_of_keys_that_say_what_or_where_are_never_masked(key: str) -> None:
    assert len({canonical_text({key: value}) for value in CHANGING}) == len(CHANGING)
    assert len({canonical_text({key: [value]}) for value in CHANGING}) == len(CHANGING)


@pytest.mark.parametrize("key", ["id", "ref", "value", "message_id", "run_id", "transactionId", "x"])
def test_under_any_other_key_random_values_are_masked_and_readable_ones_kept(key: str) -> None:
    assert canonical_text({key: str(uuid.uuid4())}) == canonical_text(
        {key: uuid.uuid4().hex.replace("-", "")[:31] + "a7"}
    )
    assert canonical_text({key: "a-17"}) != canonical_text({key: "a-18"})
    assert canonical_text({key: 17}) != canonical_text({key: 18})


def test_times_as_numbers_are_masked_but_not_where_they_are_ids() -> None:
    assert canonical_text({"sent": 1_760_000_000}) == canonical_text({"sent": 1_760_000_001.5})
    assert canonical_text({"id": 1_760_000_000}) != canonical_text({"id": 1_760_000_001})
    assert canonical_text({"amount": 1_400_000_000}) != canonical_text({"amount": 1_400_000_001})


@pytest.mark.parametrize("key", ["phone", "to", "customer", "size", "value", "number", "id"])
def test_ten_digits_are_no_time_where_nothing_says_so(key: str) -> None:
    """Looking up one customer after the other is no loop."""
    for a, b in ((1_555_123_456, 1_555_123_457), ("1555123456", "1555123457"), ("1555123456.0", "1555123457.0")):
        assert canonical_text({key: a}) != canonical_text({key: b})
        assert canonical_text({key: [a]}) != canonical_text({key: [b]})


@pytest.mark.parametrize("key", ["time", "createdAt", "date", "sent", "last_updated", "exp", "timestamp", "serverTime"])
def test_ten_digits_under_a_key_of_time_are_one(key: str) -> None:
    for a, b in ((1_760_000_000, 1_760_000_001), ("1760000000", "1760000001"), (1_760_000_000, 1_760_000_000.5)):
        assert canonical_text({key: a}) == canonical_text({key: b})
        assert canonical_text({key: [a]}) == canonical_text({key: [b]})


def test_a_long_text_or_a_structure_under_a_masked_key_is_content() -> None:
    """`trace` may be a stack trace, whose lines tell two errors apart."""
    stack = "Traceback (most recent call last): " + "in line {} of the file that is read first of all"
    assert canonical_text({"trace": stack.format(7)}) != canonical_text({"trace": stack.format(8)})
    assert canonical_text({"trace": {"line": 7}}) != canonical_text({"trace": {"line": 8}})


@given(st.uuids(), st.uuids())
def test_masks_reach_into_json_inside_json_strings(a: uuid.UUID, b: uuid.UUID) -> None:
    def nested(request: uuid.UUID, page: int) -> dict[str, Any]:
        inner = json.dumps({"meta": {"request_id": str(request)}, "page": page})
        return {"query": {"body": json.dumps({"again": inner})}}

    assert canonical_text(nested(a, 1)) == canonical_text(nested(b, 1))
    assert canonical_text(nested(a, 1)) != canonical_text(nested(a, 2))


def deep(levels: int, leaf: str) -> str:
    return '{"a":' * levels + json.dumps(leaf) + "}" * levels


@pytest.mark.parametrize("levels", [10, 40, 400])
def test_deep_nesting_is_told_apart_by_its_leaf(levels: int) -> None:
    assert canonical_text(deep(levels, "x")) != canonical_text(deep(levels, "y"))
    assert MASK in canonical_text(deep(10, "attempt 3"))

"""Packed calls are cut by session without decoding them, and come to the same as if they had been decoded."""

from __future__ import annotations

import json

import pytest

from bench.core import calls
from spanfuse_processor.errors import DecodeError
from spanfuse_processor.hosts.replay.packed import cut, is_packed, lane_of, pack, unpack
from spanfuse_schemas import Call, CallBatch


def made(count: int, **changed: object) -> tuple[Call, ...]:
    return tuple(call.model_copy(update=changed) for call in calls(count, sessions=7))


def lanes(batch: CallBatch) -> dict[int, list[Call]]:
    found: dict[int, list[Call]] = {}
    for call in batch.calls:
        found.setdefault(lane_of(call.session), []).append(call)
    return found


@pytest.mark.parametrize(
    "batch",
    [
        CallBatch(calls=made(50)),
        CallBatch(calls=made(1)),
        CallBatch(calls=(*made(3), *made(3, kind="tool"), *made(2))),
        CallBatch(calls=made(5, session="ein Café")),
        CallBatch(calls=made(5, agent='says },{"trace_id":"')),
    ],
    ids=["many", "one", "tools", "beyond ascii", "looks like a call"],
)
def test_cutting_is_as_decoding(batch: CallBatch) -> None:
    parts = cut(batch.to_json(), lane_of)
    assert parts is not None
    assert {lane: list(unpack(data).calls) for lane, data in parts.items()} == lanes(batch)


@pytest.mark.parametrize(
    "changed", [{"session": 'quo"ted'}, {"session": "back\\slash"}, {"session": "s", "model": "},{"}]
)
def test_what_cannot_be_told_from_its_bytes_is_left_to_decoding(changed: dict[str, str]) -> None:
    batch = CallBatch(calls=made(3, **changed))
    data = batch.to_json()
    assert cut(data, lane_of) is None
    assert [unpack(part).calls for part in pack(batch.calls, (), (), lane_of).values()] == [batch.calls]


def test_a_batch_that_others_have_written_is_decoded() -> None:
    data = json.dumps(json.loads(CallBatch(calls=made(3)).to_json()), indent=1).encode()
    assert is_packed(data)
    assert cut(data, lane_of) is None
    assert unpack(data).calls == made(3)


@pytest.mark.parametrize("data", [b'{"resourceSpans":[]}', b"\n\x05hello", b"garbage", b'{"calories":1}', b""])
def test_requests_of_otlp_are_no_batches(data: bytes) -> None:
    assert not is_packed(data)


def test_a_broken_batch_is_told_without_its_content() -> None:
    with pytest.raises(DecodeError) as told:
        unpack(b'{"calls":[{"trace_id":"my secret"}]}')
    assert "secret" not in str(told.value)

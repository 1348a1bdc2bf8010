"""With a signing key all that Guards obey leaves the embedded host signed."""

from __future__ import annotations

import json

import pytest

from spanfuse_processor.exporters.hub import Hub
from spanfuse_processor.hosts.board import Board
from spanfuse_schemas import Decision, Detection
from spanfuse_schemas.signing import Keyring
from tests.support.loops import in_loop

KEYS = Keyring(["the key of this test"])
BLOCK = Decision(key="session:s", state="open", action="block", issued_at_ns=1, epoch=3)


def data(frame: bytes) -> bytes:
    return frame.partition(b"data: ")[2].strip()


@in_loop
async def test_decisions_are_signed_in_the_snapshot_and_as_news() -> None:
    board = Board([BLOCK], Hub(keys=KEYS))
    (*present, ready), listener = board.follow()
    assert [Decision.from_json(KEYS.verified(data(told))) for told in present if told] == [BLOCK]
    assert ready == b"event: ready\ndata: {}\n\n"
    board.tell([BLOCK.model_copy(update={"epoch": 4})], [])
    told = await listener.take(1)
    assert told is not None
    assert json.loads(KEYS.verified(data(told)))["epoch"] == 4


@pytest.mark.parametrize("event", ["decision", "policy"])
def test_each_kind_of_event_that_guards_obey_is_signed(event: str) -> None:
    assert KEYS.verified(data(Hub(keys=KEYS).frame(event, b'{"key":"k"}'))) == b'{"key":"k"}'


@in_loop
async def test_detections_are_for_people_and_are_not() -> None:
    board = Board([], Hub(keys=KEYS))
    listener = board.follow()[1]
    found = Detection(id="1", call=1, rule="cycle", mode="block", action="block", session="s", at_ns=1, message="m")
    board.tell([], [found])
    told = await listener.take(1)
    assert told is not None
    assert data(told) == found.to_json()


def test_without_a_key_nothing_changes() -> None:
    assert data(Hub().frame("decision", BLOCK.to_json())) == BLOCK.to_json()

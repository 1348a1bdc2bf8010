"""Decompression with a limit."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib

import pytest

from spanfuse_processor.errors import DecodeError
from spanfuse_processor.otlp.inflate import Inflater, TooLargeError, inflate

DATA = bytes(range(256)) * 100


@pytest.mark.parametrize(
    "packed", [gzip.compress(DATA), zlib.compress(DATA), gzip.compress(DATA[:9]) + gzip.compress(DATA[9:])]
)
@pytest.mark.parametrize("piece", [1, 7, 10**6])
def test_data_comes_out_whole_however_it_arrives(packed: bytes, piece: int) -> None:
    inflater = Inflater(len(DATA))
    for i in range(0, len(packed), piece):
        inflater.feed(packed[i : i + piece])
    assert inflater.finish() == DATA


def test_one_byte_more_than_the_limit_is_too_large() -> None:
    with pytest.raises(TooLargeError):
        inflate(gzip.compress(DATA), len(DATA) - 1)


def test_a_bomb_never_fills_the_memory() -> None:
    bomb = gzip.compress(bytes(200_000_000))
    tracemalloc.start()
    with pytest.raises(TooLargeError):
        inflate(bomb, 1_000_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10_000_000


@pytest.mark.parametrize("bad", [b"plain", gzip.compress(DATA)[:-1], b"", gzip.compress(DATA) + b"rest"])
def test_what_is_no_compressed_data_is_refused(bad: bytes) -> None:
    with pytest.raises(DecodeError):
        inflate(bad, 10**6)

"""Fingerprints: equal for equal things, different for different ones, without content, in one format for ever."""

from __future__ import annotations

import hashlib
import secrets
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanfuse_schemas import Action, Fingerprint, Message
from spanfuse_schemas.fingerprint import (
    NEAR_MIN_CHARS,
    action_print,
    alike,
    fingerprint,
    hamming,
    input_print,
    simhash,
)

anything = st.text() | st.text(st.characters(categories=["Cs", "Lu", "Nd", "Zs", "Po"]))


@given(anything)
def test_any_text_has_a_fingerprint(text: str) -> None:
    """Lone surrogates too, which broken encoders leave behind."""
    found = fingerprint(text)
    assert (len(found.exact), len(found.canon), found.size) == (16, 16, len(text))


@given(anything, anything)
def test_exact_hashes_are_equal_for_equal_texts_only(a: str, b: str) -> None:
    assert (fingerprint(a).exact == fingerprint(b).exact) == (a == b)


ODD: list[Any] = [
    "{" * 100_000,
    "[" * 100_000 + "]" * 100_000,
    '{"a":' * 900 + "1" + "}" * 900,
    '{"n": NaN, "i": [Infinity, -Infinity, 1e999]}',
    '{"n": ' + "9" * 5_000 + "}",
    "\ud800",
    "\x00",
    {"n": float("nan"), "i": float("inf")},
    {1: "a", None: "b", 2.5: "c"},
    {"bytes": b"\xff", "set": {1}},
    "0x" * 50_000,
    "1-" * 50_000,
    "a1" * 50_000,
    "9" * 100_000,
]


@pytest.mark.parametrize("value", ODD, ids=range(len(ODD)))
def test_odd_values_have_a_fingerprint_within_a_moment(value: Any) -> None:
    """No text makes the patterns run for ever."""
    began = time.process_time()
    assert fingerprint(value).canon
    assert time.process_time() - began < 2


def test_what_cannot_be_written_has_no_identity() -> None:
    loop: list[Any] = []
    loop.append(loop)
    for value in (loop, 10**5_000, {(1, 2): 3}):
        assert (fingerprint(value).exact, fingerprint(value).canon) == ("", "")


@given(st.text(min_size=1))
def test_a_truncated_text_equals_nothing(text: str) -> None:
    cut = fingerprint(text, truncated=True)
    assert (cut.exact, cut.canon, cut.near, cut.size) == ("", "", "", len(text))
    assert not alike(cut.near, cut.size, cut.near, cut.size, 64)


def test_one_unknown_part_makes_the_whole_unknown() -> None:
    known, cut = fingerprint("a"), fingerprint("b", truncated=True)
    whole = input_print([Message(role="user", print=known), Message(role="user", print=cut)])
    assert whole is not None
    assert (whole.exact, whole.canon, whole.size) == ("", "", 2)
    action = action_print([Action(tool="t", print=known), Action(tool="t", print=cut)])
    assert action is not None
    assert action.canon == ""


def test_no_input_and_no_action_have_no_fingerprint() -> None:
    assert input_print([]) is None
    assert action_print([]) is None


def results(*texts: str, first: str = "") -> Fingerprint | None:
    talk = [Message(role="user", print=fingerprint(first))] if first else []
    return input_print([*talk, *(Message(role="tool", print=fingerprint(text)) for text in texts)])


@given(st.permutations(["attempt 1", "attempt 2", "three", "four"]))
def test_the_results_of_one_turn_come_in_any_order(texts: list[str]) -> None:
    in_order = ["attempt 1", "attempt 2", "three", "four"]
    assert results(*texts) == results(*in_order)
    assert results(*texts, first="go") == results(*in_order, first="go")


@given(st.permutations(["one", "two", "three"]))
def test_the_calls_of_one_turn_come_in_any_order(tools: list[str]) -> None:
    arguments = fingerprint({"q": 1})
    assert action_print([Action(tool=tool, print=arguments) for tool in tools]) == action_print(
        [Action(tool=tool, print=arguments) for tool in ("one", "two", "three")]
    )


def test_the_order_of_a_talk_matters_and_so_does_how_often() -> None:
    def talk(*texts: str) -> Fingerprint | None:
        return input_print([Message(role="user", print=fingerprint(text)) for text in texts])

    assert talk("a", "b") != talk("b", "a")
    assert talk("a") != talk("a", "a")
    assert results("a") != results("a", "a")


def test_the_same_text_from_a_tool_and_from_a_user_is_not_the_same_input() -> None:
    tool, user = results("yes"), input_print([Message(role="user", print=fingerprint("yes"))])
    assert tool is not None
    assert user is not None
    assert tool.canon != user.canon


def test_ids_of_calls_do_not_matter() -> None:
    def turn(call_id: str) -> tuple[Any, Any]:
        arguments = fingerprint({"q": 1})
        return (
            action_print([Action(tool="search", print=arguments, call_id=call_id)]),
            input_print([Message(role="tool", print=arguments, call_id=call_id)]),
        )

    assert turn("call_1") == turn("call_2")


@pytest.mark.parametrize(
    "change",
    [
        lambda i: {"request_id": f"r-{i}"},
        lambda i: {"ref": str(uuid.uuid4())},
        lambda i: {"ref": secrets.token_hex(16) + "a1"},
        lambda i: {"sent": f"2026-11-29T14:44:{i:02}.123Z"},
        lambda i: {"sent": 1_760_000_000 + i},
        lambda i: {"attempt": i},
    ],
)
def test_what_changes_in_nested_arguments_does_not_change_the_action(change: Callable[[int], dict[str, Any]]) -> None:
    prints = [fingerprint({"query": {"table": "orders", "meta": change(i)}}) for i in range(4)]
    assert len({p.canon for p in prints}) == 1
    assert len({p.exact for p in prints}) == 4


def test_attempts_of_one_prompt_are_equal_and_other_prompts_are_not() -> None:
    assert len({fingerprint(f"Fix the build, attempt {i}").canon for i in range(1, 5)}) == 1
    assert len({fingerprint(f"Translate sentence {i}").canon for i in range(1, 5)}) == 4


def prose(words: int, changed: int = -1) -> str:
    return " ".join("other" if i == changed else f"w{i % 97}x{i % 31}" for i in range(words))


def test_short_texts_have_no_near_hash() -> None:
    assert fingerprint("x" * (NEAR_MIN_CHARS - 1)).near == ""
    assert len(fingerprint("x" * NEAR_MIN_CHARS).near) == 16


@pytest.mark.parametrize("words", [400, 4_000, 40_000])
def test_one_changed_word_of_many_moves_few_bits_and_another_text_many(words: int) -> None:
    whole = simhash(prose(words))
    assert hamming(whole, simhash(prose(words, changed=words // 2))) <= 4
    assert hamming(whole, simhash(prose(words)[::-1])) > 16


def test_the_order_of_words_matters_to_the_near_hash() -> None:
    words = prose(90).split()
    assert hamming(simhash(" ".join(words)), simhash(" ".join(reversed(words)))) > 16


def test_the_near_hash_is_the_majority_of_its_shingles() -> None:
    """Bit by bit as the definition says, against the way it is computed."""

    def rotated(word: str, bits: int) -> int:
        x = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")
        return (x << bits | x >> (64 - bits)) % 2**64

    for count in (3, 4, 5, 8, 9, 33, 100):
        words = prose(count).split()
        shingles = [
            rotated(a, 0) ^ rotated(b, 21) ^ rotated(c, 42)
            for a, b, c in zip(words, words[1:], words[2:], strict=False)
        ]
        ones = [sum(s >> bit & 1 for s in shingles) for bit in range(64)]
        assert int(simhash(" ".join(words)), 16) == sum(1 << b for b in range(64) if ones[b] * 2 > len(shingles))


GOLDEN: list[tuple[Any, str]] = [
    ("", "e4a6a0577479b2b4e4a6a0577479b2b4:0"),
    ("What is the weather in Tokyo?", "bd0da840feb1bcc7bd0da840feb1bcc7:29"),
    ("Fix the build, attempt 3", "a99e503f7615f802de8fa451b18ece79:24"),
    ({"b": [1, 2.0, None, True], "a": {"request_id": "r1", "page": 2}}, "675b67730eaf77d48c0774c365b5bf53:56"),
    ("Cafe\u0301 12µs 日本 2026-11-29T14:44:35Z", "5cdc77d83679f66e64caa032167f7a1a:34"),
    ("\ud800", "4208783e927d0d684208783e927d0d68:1"),
    (prose(60), "1417a2c68946a9141417a2c68946a91417b2084120493722:389"),
    ("z " * 9_000, "e066b0eddca640564ebff7fbee131bd254531be190c2eb25:18000"),
]


@pytest.mark.parametrize(("value", "wire"), GOLDEN)
def test_the_format_never_changes(value: Any, wire: str) -> None:
    """Agents, ingest and stored state of different versions compare these values."""
    assert fingerprint(value) == wire


def test_the_format_of_joined_fingerprints_never_changes() -> None:
    weather = fingerprint("What is the weather in Tokyo?")
    assert input_print([Message(role="user", print=weather), Message(role="tool", print=weather)]) == JOINED_INPUT
    assert action_print([Action(tool="search", print=weather), Action(print=weather)]) == JOINED_ACTION


JOINED_INPUT = "8f5966bce02bfb148f5966bce02bfb14:58"
JOINED_ACTION = "311f289eb224aae5311f289eb224aae5:58"


def test_what_is_remembered_of_words_is_bounded_in_number_and_length() -> None:
    from spanfuse_schemas import canonical
    from spanfuse_schemas import fingerprint as module

    for i in range(3):
        fingerprint(" ".join(f"{word:x}" for word in range(i * 10_000, (i + 1) * 10_000)))
    long = "a1" * 200
    fingerprint(f"{long} " * 300)
    assert len(module._HASHES) <= module._MAX_WORDS
    assert len(canonical._DIGITS) <= canonical._MAX_WORDS
    assert long not in canonical._DIGITS
    assert long not in module._HASHES

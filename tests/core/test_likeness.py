"""The wording of an action: a paraphrase is alike, an enumeration is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanfuse_processor.core.likeness import differing_label, number_moved, same_wording, says_nothing_new
from spanfuse_schemas.wording import MAX_CHARS, MAX_WORDS, SURELY_IDLE, fields_of, share_key, wording


def known(arguments: object) -> bytes:
    return bytes.fromhex(wording(arguments))


def alike(a: object, b: object, similarity: float = 0.6) -> bool:
    return same_wording(known(a), known(b), similarity)


PARAPHRASES = [
    ("annual rainfall of Lisbon in millimetres", "rainfall Lisbon annual millimetres"),
    ("annual rainfall of Lisbon in millimetres", "Annual rainfall, Lisbon: millimetres"),
    ("first published papers of the author Lovelace", "author Lovelace paper first publication"),
    ("list of bridges over the river Douro built 1963", "bridges built 1963 over the river Douro list"),
]


@pytest.mark.parametrize(("a", "b"), PARAPHRASES)
def test_the_same_words_in_another_order_or_form_are_alike(a: str, b: str) -> None:
    assert alike({"query": a}, {"query": b})


ENUMERATIONS = [
    ("weather in Porto on day 3", "weather in Porto on day 4"),
    ("take mug 1 from the wooden cabinet 2", "take mug 1 from the wooden cabinet 3"),
    ("read the second chapter of the manual", "write a summary for the customer"),
]


@pytest.mark.parametrize(("a", "b"), ENUMERATIONS)
def test_another_thing_or_another_number_is_another_question(a: str, b: str) -> None:
    assert not alike({"query": a}, {"query": b})


def test_keys_do_not_count() -> None:
    assert wording({"query": "rainfall of Lisbon over many years"}) == wording(
        {"q": ["rainfall of Lisbon over many years"]}
    )


def test_few_words_are_alike_only_if_all_are_the_same() -> None:
    assert alike({"type": "a"}, {"type": "A "})
    assert not alike({"type": "a"}, {"type": "b"})
    assert not alike({"name": "old red door"}, {"name": "old red gate"})


@pytest.mark.parametrize(
    "command", ["pytest -k 'a,b' tests/x.py", 'lint --names="foo,bar" foo.py', "sed -i 's/a/b/' src/a.py", "f(x) = {y}"]
)
def test_commands_paths_and_code_have_no_wording(command: str) -> None:
    assert wording({"command": command}) == ""


def test_the_bound_on_symbols_lies_where_it_says() -> None:
    assert wording("abcdefghijklmnopq" + "-" * 3) != ""  # 3 of 20
    assert wording("abcdefghijklmnop" + "-" * 3) == ""  # 3 of 19


def test_long_texts_and_empty_ones_have_no_wording() -> None:
    assert wording("a" * MAX_CHARS) != ""
    assert wording("a" * (MAX_CHARS + 1)) == ""
    assert wording({"list": ["a" * 300, "b" * 300]}) == ""
    assert wording({}) == wording("") == wording({"page": 3}) == ""


def test_the_bound_on_words_lies_where_it_says() -> None:
    words = [f"{a}{b}zzz" for a in "abcdefg" for b in "hijkl"]
    assert wording(" ".join(words[:MAX_WORDS])) != ""
    assert wording(" ".join(words[: MAX_WORDS + 1])) == ""


def test_a_question_of_words_that_were_all_there_says_nothing_new_and_one_with_a_new_name_does() -> None:
    asked = [known(q) for q in ("rainfall of Lisbon over many years", "yearly rainfall statistics of Lisbon")]
    assert says_nothing_new(known("Lisbon rainfall statistics over the years"), asked)
    assert not says_nothing_new(known("Porto rainfall statistics over the years"), asked)


def test_the_similarity_is_a_bound_that_holds_to_the_word() -> None:
    a, b = "apple banana cherry dates", "apple banana cherry elder"  # three of five
    assert alike(a, b, 0.6)
    assert not alike(a, b, 0.61)


def test_an_unknown_wording_is_like_nothing() -> None:
    assert not same_wording(b"", b"", 0.6)
    assert not alike("sed -i 's/a/b/' x", "sed -i 's/a/b/' x")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(json_values)
def test_whatever_the_arguments_the_sketch_is_none_or_64_bits_and_like_itself(value: object) -> None:
    found = wording(value)
    assert found == "" or (len(found) <= 4 * (MAX_WORDS + 1) and alike(value, value, 1))


def label(a: object, b: object) -> int:
    return differing_label(bytes.fromhex(fields_of(a)), bytes.fromhex(fields_of(b)))


@pytest.mark.parametrize(("a", "b"), [(1, 2), (0.5, 0.25), ("r-1", "r-2"), ("3f9a", "77b0")])
def test_two_calls_that_differ_in_a_number_or_label_only_show_which(a: object, b: object) -> None:
    assert label({"query": "x", "n": a}, {"query": "x", "n": b}) == label({"n": 7, "q": 1}, {"n": 8, "q": 1})
    assert label({"query": "x", "n": a}, {"query": "x", "n": b}) >= 0x80


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ({"q": "x", "n": 1}, {"q": "x", "n": 1}),  # nothing differs
        ({"q": "x", "n": 1}, {"q": "y", "n": 2}),  # more than one field does
        ({"to": "Ada", "text": "x"}, {"to": "Grace", "text": "x"}),  # a name is what it is about
        ({"path": "a1", "text": "x"}, {"path": "a2", "text": "x"}),  # so is what a key says to be what or where
        ({"page": 1, "text": "x"}, {"page": 2, "text": "x"}),
        ({"order_id": 1, "text": "x"}, {"order_id": 2, "text": "x"}),
        ({"n": 1}, {"n": 2}),  # there is nothing that stays
        ({"n": 1, "q": "x"}, {"m": 1, "q": "x"}),
    ],
)
def test_otherwise_they_are_different_things(a: object, b: object) -> None:
    assert label(a, b) == 0


@given(json_values)
def test_whatever_the_arguments_their_fields_are_whole_and_equal_to_themselves(value: object) -> None:
    found = bytes.fromhex(fields_of(value))
    assert len(found) % 4 == 0
    assert differing_label(found, found) == 0


def moved(a: object, b: object) -> int:
    return number_moved(bytes.fromhex(fields_of(a)), bytes.fromhex(fields_of(b)))


def test_two_calls_that_differ_in_a_small_number_show_which_is_larger_and_not_what_it_is() -> None:
    assert moved({"path": "f", "offset": 40}, {"path": "f", "offset": 80}) == 40
    assert moved({"path": "f", "offset": 400}, {"path": "f", "offset": 1}) == -399
    assert moved({"path": "f", "offset": 40}, {"path": "g", "offset": 80}) == 0
    assert moved({"path": "f", "offset": 40}, {"path": "f", "limit": 80}) == 0
    assert moved({"path": "f", "offset": 40}, {"path": "f", "offset": 2**23}) == 0, "it is too large to be kept"


def test_hashes_are_of_the_process_unless_a_secret_is_shared() -> None:
    asked = {"query": "rainfall of Lisbon over many years", "n": 7}
    own = wording(asked), fields_of(asked)
    share_key("one for all workers")
    shared = wording(asked), fields_of(asked)
    share_key("another")
    assert len({own, shared, (wording(asked), fields_of(asked))}) == 3
    share_key("one for all workers")
    assert (wording(asked), fields_of(asked)) == shared


def test_no_more_than_words_is_remembered_of_what_was_hashed() -> None:
    from spanfuse_schemas import wording as module

    before = module._word_hash.cache_info().currsize
    fields_of({"path": "f", "content": "a text that must not stay in memory, " * 50})
    assert module._word_hash.cache_info().currsize <= before + 3


@pytest.mark.parametrize(
    ("key", "sure"), [("label", True), ("run_id", False), ("user", False), ("attempt", True), ("n", False)]
)
def test_a_key_may_say_that_its_value_is_a_mere_label(key: str, sure: bool) -> None:
    assert bool(label({"q": "x", key: 1}, {"q": "x", key: 2}) & SURELY_IDLE) is sure

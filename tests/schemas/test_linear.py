"""A search in linear time finds what Python's finds."""

from __future__ import annotations

import pickle
import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spanfuse_schemas import linear
from spanfuse_schemas.linear import LinearPattern

_ATOMS = st.sampled_from(
    ["a", "b", "B", ".", r"\w", r"\d", r"\s", "[^a]", "[a-c_]", "^", "$", r"\b", r"\A", r"\Z", "é", r"\n"]
)
_PATTERNS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=4).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda found: f"(?:{'|'.join(found)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{1,2}", "*?"])).map(
            lambda found: f"(?:{found[0]}){found[1]}"
        ),
    ),
    max_leaves=6,
)
_TEXTS = st.text(alphabet="abBcAé_1 \n", max_size=12)
_FLAGS = st.sampled_from(["", "(?i)", "(?m)", "(?s)", "(?im)"])


@given(_PATTERNS, _FLAGS, _TEXTS)
@example("rm$", "", "rm\n")
@example("(?:a*)*b", "", "aaa")
@example("[^a]", "(?i)", "A")
def test_it_finds_what_the_standard_library_finds(pattern: str, flags: str, text: str) -> None:
    assert LinearPattern(flags + pattern).search(text) == bool(re.search(flags + pattern, text))


@pytest.mark.parametrize(
    "pattern", [r"(a)\1", "(?=a)", "(?<!a)b", "(?>a)", "a++", "(a", "a{600}", "(a{30}){30}", "(?a)x"]
)
def test_what_needs_backtracking_or_is_too_large_is_refused_at_once(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"linear time|too large|regular expression|flags"):
        LinearPattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("(a+)+$", "a" * 16_000 + "b"), ("(a|aa)+$", "a" * 16_000 + "b"), (".*x.*y.*z.*!", "xyz" * 5_000)],
    ids=["nested", "ambiguous", "many"],
)
def test_texts_that_would_stop_the_standard_library_for_years_take_a_moment(pattern: str, text: str) -> None:
    found, begun = LinearPattern(pattern), time.process_time()
    assert not found.search(text)
    assert time.process_time() - begun < 2


def test_it_remembers_so_much_and_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "MAX_REMEMBERED", 50)
    found = LinearPattern("(a|b)*a(a|b){6}c")
    text = f"{3:08b}{77:08b}{200:08b}{151:08b}".replace("0", "a").replace("1", "b") * 20
    assert not found.search(text)
    assert found.search(text + "aaaaaaaac")
    assert sum(len(states.nodes) for states in found._known.values()) <= 100


def test_it_can_be_sent_to_another_process() -> None:
    assert pickle.loads(pickle.dumps(LinearPattern("a+b"))).search("xaab")

"""Reports as pages: plain words first, every picture with words, nothing from elsewhere, and names that are only text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spanfuse_processor.report.parts import MAX_ROWS
from tests.page.document import Document
from tests.page.test_escaping import EVIL
from tests.report.pages import hostile, replayed_page, tuned_page
from tests.support.studied import asks


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tuned_page(tmp_path_factory.mktemp("tuned"))


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> str:
    return replayed_page(tmp_path_factory.mktemp("replayed"))


def lead(html: str) -> str:
    found = re.search(r'<p class="lead">(.*?)</p>', html)
    assert found is not None
    return found[1]


def test_a_study_begins_with_what_would_have_been_stopped_in_plain_words(tuned: str) -> None:
    assert lead(tuned) == (
        "Of 65 agent sessions in this recording it is known how they went: 25 ran away, 40 got on. With the recommended "
        "settings spanfuse would have stopped 25 of 25 runaways and 0 of 40 good sessions, and saved 275 useless calls and "
        "$0.0074. As it is configured it would have stopped 25 runaways and 10 good sessions, and saved 300 useless calls "
        "and $0.0081."
    )


def test_a_replay_begins_with_what_would_have_been_stopped_and_saved(replayed: str) -> None:
    assert lead(replayed) == (
        "In this recording agents made 75 model calls in 9 sessions and spent $0.0020. With these settings spanfuse would have "
        "stopped 5 sessions (56 %), and saved up to 44 calls and $0.0012. The other 4 would have gone on untouched. That is 2 "
        "more than with the settings that it is compared with, which would have saved 30 calls and $0.00081."
    )


@pytest.mark.parametrize("page", ["tuned", "replayed"])
def test_a_report_is_one_file_that_asks_nobody_and_runs_nothing(page: str, request: pytest.FixtureRequest) -> None:
    html = request.getfixturevalue(page)
    found = Document(html)
    assert found.all("script") == found.all("link") == found.all("img") == found.all("iframe") == []
    assert not re.search(r"https?://|url\(|@import", html)
    assert not [a for _, a in found.elements for name in a if name.startswith("on") or name in ("src", "href")]
    (policy,) = (m["content"] for m in found.all("meta") if m.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy
    assert "script-src" not in policy


@pytest.mark.parametrize("page", ["tuned", "replayed"])
def test_every_picture_has_words_for_who_does_not_see_it(page: str, request: pytest.FixtureRequest) -> None:
    found = Document(request.getfixturevalue(page))
    pictures = found.all("svg", role="img")
    assert len(pictures) > 3
    assert all(len(a["aria-label"]) > 5 for a in pictures)
    drawn = [a for a in found.all("div", role="img") if "strip" in a.get("class", "")]
    assert drawn
    assert all("steps" in a["aria-label"] for a in drawn)
    assert all(a.get("scope") for a in found.all("th"))
    assert len(set(found.ids)) == len(found.ids)


def test_what_is_recommended_is_there_as_a_file_too(tuned: str) -> None:
    assert "detectors:\n  repeat.prompt:\n    count: 4" in Document(tuned).text
    assert "Equal steps that are still let through; the next is refused" in Document(tuned).text


def test_a_study_says_what_it_was_after_and_how_sure_it_is(tuned: str) -> None:
    text = Document(tuned).text
    assert "no good session stopped, then most runaways, then the earliest stop, then the least change" in text
    assert "How sure this is" in text
    assert "Chosen without the sessions that judge them, such settings stop 25 of 25 runaways and 0 of 40" in text


def test_both_stops_of_a_session_are_marked(replayed: str) -> None:
    assert replayed.count('class="cut"') > replayed.count('class="cut was"') > 1
    assert "Before: stopped at call 6." in replayed


def test_without_labels_no_page_says_what_is_right(tmp_path: Path) -> None:
    html = tuned_page(tmp_path, labels={})
    text = Document(html).text
    assert "What each setting would stop" in text
    assert "not whether that would have been right" in text
    assert "Recommended" not in text
    assert "limits.max_steps: 12" in text


def test_names_are_text_wherever_they_stand(tmp_path: Path) -> None:
    html = replayed_page(tmp_path, hostile(EVIL), compared=False)
    found = Document(html)
    assert found.all("img") == found.all("script") == []
    assert not re.search(r"<(?:img|script|/textarea)", html)
    assert "7*7" not in html.replace("{{7*7}}${7*7}", "")
    assert sum("onerror=alert(1)" in piece for piece in found.pieces) >= 3, (
        "session, agent and model are shown as they are"
    )


def test_half_of_a_surrogate_pair_does_not_spoil_the_file(tmp_path: Path) -> None:
    assert "half ?" in replayed_page(tmp_path, hostile("half \ud83d"), compared=False)


def test_nothing_that_was_recorded_of_content_is_in_it(replayed: str, tuned: str) -> None:
    for word in ("order 12", "shelf", "answer 1"):
        assert word not in replayed
        assert word not in tuned


def test_a_page_does_not_grow_with_the_recording(tmp_path: Path) -> None:
    def page(folder: str, sessions: int) -> str:
        (tmp_path / folder).mkdir()
        requests = [r for n in range(sessions) for r in asks(f"{n:04}", 5, 0, agent=f"agent-{n:04}")]
        return replayed_page(tmp_path / folder, requests, compared=False)

    html = page("large", 400)
    assert f"{400 - MAX_ROWS} more rows are in the JSON report." in html
    assert len(html) < 150_000
    assert len(html) - len(page("small", 100)) < 2_000


def test_an_empty_recording_has_a_page(tmp_path: Path) -> None:
    assert "0 model calls in 0 sessions" in replayed_page(tmp_path, [], compared=False)


def test_the_same_replay_gives_the_same_page(replayed: str, tmp_path: Path) -> None:
    assert replayed_page(tmp_path) == replayed

"""docs/decisions: each record has a number of its own and the form of all, and the index lists it."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs" / "decisions"
RECORDS = sorted(FOLDER.glob("[0-9]*.md"))


def test_numbers_go_up_by_one_from_one_and_are_those_of_the_titles() -> None:
    titled = [re.match(r"# (\d+)\. \S", record.read_text(encoding="utf-8")) for record in RECORDS]
    assert [int(record.name[:4]) for record in RECORDS] == list(range(1, len(RECORDS) + 1))
    assert [int(found[1]) for found in titled if found] == list(range(1, len(RECORDS) + 1))


def test_each_has_the_form_that_the_index_shows() -> None:
    for record in RECORDS:
        text = record.read_text(encoding="utf-8")
        assert re.search(r"^Status: (accepted|replaced by \d{4})$", text, re.MULTILINE), record.name
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"], record.name


def test_the_index_lists_all_with_their_titles() -> None:
    listed = re.findall(r"^(\d+)\. \[(.+)\]\((.+)\)$", (FOLDER / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    heads = [record.read_text(encoding="utf-8").splitlines()[0] for record in RECORDS]
    assert [(f"# {number}. {title}", name) for number, title, name in listed] == [
        (head, record.name) for head, record in zip(heads, RECORDS, strict=True)
    ]

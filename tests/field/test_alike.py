"""Field reports on progress, made harder: long arguments that differ in what matters, and in little else."""

from __future__ import annotations

import pytest

from tests.support.road import untouched
from tests.support.script import together, tool, user

PEOPLE = ("alice", "bob", "carla", "dmitri", "erin", "farid", "greta", "hiro")
LONG = (
    "nothing was found for it: there is no such order in this year or the last one, and none in the archive of the years "
    "before, nor in that of the company it belonged to"
)
DONE = (
    "The file has been edited. Here is the result of running `cat -n` on a snippet of the edited file: 1 # Copyright the "
    "authors. Review the changes and make sure they are as expected."
)


def mail(person: str) -> dict[str, str]:
    return {
        "to": f"{person}@example.org",
        "subject": "Your invoice for October",
        "body": "Dear customer, please find attached the invoice for your October order. Kind regards, the billing team",
    }


def test_r002_a_search_and_a_replacement_per_file_are_work_though_the_results_read_alike() -> None:
    untouched(
        *[
            s
            for p in PEOPLE
            for s in (
                tool("grep", pattern="old_name", path=f"{p}.py") >> "1 match",
                tool("sed", path=f"{p}.py") >> "ok",
            )
        ]
    )


@pytest.mark.parametrize("result", ["ok", "", "true", '{"status":"success"}'])
def test_r001_acknowledgements_alone_are_no_repetition(result: str) -> None:
    """What differs is what was done; that each was acknowledged alike says nothing."""
    untouched(*[tool("create_row", name=p) >> result for p in PEOPLE])


def test_r016_the_same_parallel_batch_over_other_items_is_work() -> None:
    untouched(*[together(*[tool("read", path=f"{p}/{i}") >> f"{p}{i} {LONG}" for i in range(4)]) for p in PEOPLE])


def test_r011_a_queue_that_is_drained_is_work() -> None:
    """The same call takes another item each time, until there is none."""
    untouched(
        *[tool("next_task") >> f"task {p}" for p in PEOPLE], tool("next_task") >> "none left", hints={"repeat.action"}
    )


def test_r033_pages_are_told_by_their_number() -> None:
    untouched(
        *[tool("list", page=i, per_page=50) >> f"rows {50 * i} to {50 * i + 49}" for i in range(12)],
        hints={"repeat.action"},
    )


def test_r034_the_same_letter_to_other_people_is_other_work_though_each_is_refused() -> None:
    """Three recipients whose server refuses say nothing of the fourth, however alike the letters are."""
    untouched(
        *[tool("send_mail", **mail(p)).fails("SMTP 550: the recipient's server refused it") for p in PEOPLE[:5]],
        tool("send_mail", **mail("zoe")) >> "sent",
        hints={"stagnation"},
    )


def test_r015_the_same_question_about_other_people_is_other_work_though_nothing_is_found() -> None:
    """A list of customers of whom none has an order is gone through to its end."""
    untouched(
        *[
            tool("find_orders", query=f"open orders of the customer {p} in the northern sales region") >> LONG
            for p in PEOPLE
        ],
        hints={"stagnation"},
    )


def test_r001_the_same_edit_in_many_files_is_work() -> None:
    """A licence header that is put into eight files is eight edits."""
    header = (
        "# Copyright the authors. Licensed under the Apache License, Version 2.0; see the file LICENSE for its text."
    )
    untouched(*[tool("edit", path=f"src/{p}.py", insert=header, line=1) >> DONE for p in PEOPLE])


def test_r008_a_page_that_is_read_again_for_each_question_is_a_conversation() -> None:
    text = "the page, which is long enough to be told from a mere acknowledgement"
    untouched(
        *[
            s
            for q in ("Who wrote it?", "When?", "Where?", "For whom?", "Why?")
            for s in (user(q), tool("page") >> text)
        ],
        shows=("messages", "both"),
    )

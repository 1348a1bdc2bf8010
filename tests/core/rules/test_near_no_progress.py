"""near.no_progress: the same question in other words, and nothing new came of it."""

from __future__ import annotations

from typing import Any

from tests.support.agents import Run, llm, play, policy, tool, tool_loop

TASK = "You are a research assistant. " * 8 + "Find the annual rainfall of Lisbon."
ASKED = (
    "annual rainfall of Lisbon in millimetres",
    "rainfall of Lisbon, annual, millimetres",
    "Lisbon annual rainfall millimetres",
    "millimetres of annual rainfall, Lisbon",
)
SAME = "Lisbon lies at the mouth of the Tagus. " * 4


def searches(*queries: str, tools: str | tuple[str, ...] = "search", result: str = SAME) -> list[tuple[str, Any, str]]:
    names = (tools,) * len(queries) if isinstance(tools, str) else tools
    return [(name, {"query": query}, result) for name, query in zip(names, queries, strict=True)]


def restating(*acts: tuple[str, Any]) -> list[Any]:
    """An agent whose framework writes the task and all it has seen into one new user message each turn."""
    history: list[dict[str, Any]] = [{"role": "user", "content": TASK}]
    calls = []
    for i, (name, arguments) in enumerate(acts):
        asked = {
            "role": "assistant",
            "tool_calls": [{"id": f"c{i}", "function": {"name": name, "arguments": arguments}}],
        }
        calls.append(llm(history, asked, at=i))
        history = [*history, asked, {"role": "user", "content": f"{TASK} So far you have taken {i + 1} steps: …"}]
    calls.append(llm(history, {"role": "assistant", "content": "Done."}, at=len(acts)))
    return calls


def asks(run: Run) -> None:
    assert (run.rule, run.blocked_at) == ("near.no_progress", 3)


def test_three_paraphrases_that_bring_the_same_long_answer_are_a_loop() -> None:
    asks(play(tool_loop(searches(*ASKED))))


def test_two_are_none() -> None:
    assert play(tool_loop(searches(*ASKED[:2]))).quiet


def test_answers_that_differ_are_progress() -> None:
    steps = [(n, a, f"page {i}: {SAME}") for i, (n, a, _) in enumerate(searches(*ASKED))]
    assert play(tool_loop(steps)).quiet


def test_a_short_success_is_the_same_for_different_deeds() -> None:
    to = ("Ada Lovelace", "Grace Hopper", "Mary Shelley", "Jane Austen")
    mails = [
        ("send_mail", {"to": name, "body": "Dear friend, the meeting was moved to Monday morning"}, "Mail sent.")
        for name in to
    ]
    assert play(tool_loop(mails)).quiet


def test_the_length_that_tells_is_128_characters() -> None:
    base = "annual rainfall of Lisbon in millimetres"
    queries = (f"{base} yearly", f"{base} average", f"{base} yearly average", base)
    asks(play(tool_loop(searches(*queries, result="x" * 128))))
    assert play(tool_loop(searches(*queries, result="x" * 127))).quiet


def test_a_batch_over_a_list_names_another_thing_each_time() -> None:
    names = ("Ada Lovelace", "Grace Hopper", "Mary Shelley", "Jane Austen", "Marie Curie", "Emmy Noether")
    orders = [("orders", {"query": f"open orders of the customer {n} in the northern region"}, SAME) for n in names]
    assert play(tool_loop(orders)).quiet
    refused = [
        ("send_mail", {"to": n, "body": "the same letter to all of you, my friends"}, "Error: 550") for n in names
    ]
    assert play(tool_loop(refused)).quiet


def test_exactly_the_same_words_with_the_same_short_answer_are_a_loop() -> None:
    listed = [("list", {"type": t}, "[]") for t in ("a", "a ", "A", " A")]
    asks(play(tool_loop(listed)))


def test_failures_with_the_same_message_are_a_loop_however_short() -> None:
    run = play(tool_loop(searches(*ASKED, result="Error: invalid argument")))
    assert (run.rule, run.blocked_at) == ("near.no_progress", 3)


def test_an_agent_whose_observations_lie_in_a_restated_task_is_judged_by_what_it_asks() -> None:
    asks(play(restating(*(("search", {"query": q}) for q in ASKED))))


def test_what_it_sees_may_be_new_as_long_as_its_questions_are() -> None:
    things = (
        "rainfall of Lisbon",
        "population of Porto",
        "bridges over the Douro",
        "mayors of Coimbra",
        "wines of Dão",
    )
    assert play(restating(*(("search", {"query": q}) for q in things))).quiet


def test_one_question_to_three_tools_is_a_search_and_asking_one_of_them_again_is_a_loop() -> None:
    tools = ("web", "wiki", "papers", "web")
    assert play(restating(*zip(tools[:3], ({"query": q} for q in ASKED), strict=False))).quiet
    run = play(restating(*zip(tools, ({"query": q} for q in ASKED), strict=True)))
    assert (run.rule, run.blocked_at) == ("near.no_progress", 4)


def test_an_agent_that_asks_something_else_is_let_through() -> None:
    acts = [("search", {"query": q}) for q in ASKED[:3]]
    run = play([*restating(*acts)[:3], *restating(("read", {"page": "history of the town hall"}))])
    assert run.blocked_at is None


def test_commands_are_not_prose() -> None:
    names = ('"foo,bar"', '"foo, bar"', '"foo,,bar"', '"foo bar,"')
    commands = [("bash", {"command": f"lint --names={n} foo.py"}, SAME) for n in names]
    assert play(tool_loop(commands)).quiet


def test_the_similarity_and_the_count_are_settings() -> None:
    steps = searches("apple banana cherry dates", "apple banana cherry elder", "apple banana dates elder", "more")
    assert play(tool_loop(steps), policy(near={"similarity": 0.61})).quiet
    asks(play(tool_loop(steps), policy(near={"similarity": 0.6})))
    assert play(tool_loop(searches(*ASKED)), policy(repeat_no_progress={"count": 5})).quiet
    assert play(tool_loop(searches(*ASKED)), policy(near={"mode": "off"})).quiet


def test_a_finding_names_its_tool_and_count() -> None:
    found = play(tool_loop(searches(*ASKED))).detections[0]
    assert (found.evidence.tool, found.evidence.count, found.evidence.threshold) == ("search", 3, 3)


def test_an_agent_of_which_only_spans_told_is_recognised_by_its_next_prompt_too() -> None:
    spans = play([tool(n, a, r, at=i) for i, (n, a, r) in enumerate(searches(*ASKED[:3]))])
    assert [p.fresh for p in spans.decisions[-1].loop] == [True]
    calls = play(tool_loop(searches(*ASKED)))
    assert [p.fresh for p in calls.decisions[-1].loop] == [False]

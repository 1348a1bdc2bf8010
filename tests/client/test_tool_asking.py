"""Somebody is asked to permit a call of a tool; whatever is no clear yes is no."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from spanfuse.context import IDENTITY, Identity, session
from spanfuse.tools import Approval, Question, ToolPolicy
from spanfuse.tools import asking as tool_asking
from spanfuse.tools.denied import ToolDenied
from tests.client.waiting import wait_until

WHO = Identity("run-1", "planner", "ada", "research")


def raises(question: Question) -> bool:
    """A handler that fails with what it should not tell."""
    raise RuntimeError(f"cannot send {question.arguments}")


async def never(question: Question) -> bool:
    """A handler that does not answer, and holds on to its cancellation."""
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await asyncio.sleep(0.05)
            raise


async def yes(question: Question) -> bool:
    """A handler that answers in a coroutine."""
    await asyncio.sleep(0)
    return True


class Person:
    """A handler that is an object."""

    async def __call__(self, question: Question) -> Approval:
        return Approval(True, "by ada")


def outcome(policy: ToolPolicy, arguments: Any = None) -> str:
    """What becomes of a call, in synchronous code."""
    try:
        return policy.admit("send", arguments, WHO).action
    except ToolDenied as refusal:
        return f"{refusal.rule}: {refusal.reason}"


async def aoutcome(policy: ToolPolicy, arguments: Any = None) -> str:
    """The same in a coroutine."""
    try:
        return (await policy.aadmit("send", arguments, WHO)).action
    except ToolDenied as refusal:
        return f"{refusal.rule}: {refusal.reason}"


CASES = {
    "yes": (lambda question: True, "allow"),
    "yes in a coroutine": (yes, "allow"),
    "an object that answers in a coroutine": (Person(), "allow"),
    "a coroutine behind a function": (lambda question: yes(question), "allow"),
    "no": (lambda question: False, "said no"),
    "no, with a reason": (lambda question: Approval(False, "not on a Friday"), "not on a Friday"),
    "nobody": (None, "nobody to ask"),
    "fails": (raises, "failed with RuntimeError"),
    "nonsense": (lambda question: "yes", "answered with str"),
    "nothing": (lambda question: None, "answered with NoneType"),
    "a number": (lambda question: 1, "answered with int"),
    "nonsense in its answer": (lambda question: Approval("yes"), "answered with Approval"),  # type: ignore[arg-type]
    "too many arguments": (lambda: True, "failed with TypeError"),
}


@pytest.mark.parametrize("case", CASES)
def test_only_a_clear_yes_is_a_yes(case: str) -> None:
    handler, expected = CASES[case]
    policy = ToolPolicy(ask=handler, ask_timeout_s=20).ask("*")  # type: ignore[arg-type]
    assert expected in outcome(policy, {"to": "hunter2"})
    assert expected in asyncio.run(aoutcome(policy, {"to": "hunter2"}))
    assert "hunter2" not in repr(policy.denials.kept())


def test_who_answers_late_says_no_and_holds_nobody_up() -> None:
    released = threading.Event()
    policy = ToolPolicy(ask=lambda question: released.wait(30), ask_timeout_s=0.05).ask("*")
    assert "within 0.05 s" in outcome(policy)
    assert "within 0.05 s" in asyncio.run(aoutcome(policy))
    released.set()
    lasting = ToolPolicy(ask=never, ask_timeout_s=0.05).ask("*")
    assert outcome(lasting) != "allow"
    assert "within 0.05 s" in asyncio.run(aoutcome(lasting))


def test_an_event_loop_goes_on_while_somebody_is_asked() -> None:
    begun, released = threading.Event(), threading.Event()

    def handler(question: Question) -> bool:
        begun.set()
        return released.wait(30)

    async def main() -> str:
        asked = asyncio.ensure_future(aoutcome(ToolPolicy(ask=handler).ask("*")))
        await asyncio.to_thread(begun.wait, 10)
        released.set()
        return await asked

    assert asyncio.run(main()) == "allow"


def test_an_event_loop_is_not_held_up_by_a_coroutine_that_would_need_it() -> None:
    async def main() -> str:
        return outcome(ToolPolicy(ask=yes).ask("*"))

    assert "async with" in asyncio.run(main())


def test_a_call_that_is_cancelled_while_somebody_is_asked_is_not_counted() -> None:
    begun = asyncio.Event()

    async def handler(question: Question) -> bool:
        begun.set()
        await asyncio.sleep(3600)
        return True

    async def main(policy: ToolPolicy) -> None:
        asked = asyncio.ensure_future(aoutcome(policy))
        await begun.wait()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked

    policy = ToolPolicy(ask=handler).ask("*", max_calls=1)
    asyncio.run(main(policy))
    assert policy.judge("send", {}, WHO).action == "ask"


def test_the_handler_is_told_what_for_and_whom_in_the_context_of_the_call() -> None:
    asked: list[tuple[Question, Identity]] = []

    def handler(question: Question) -> bool:
        asked.append((question, IDENTITY.get()))
        return True

    policy = ToolPolicy(ask=handler).ask("send", reason="it leaves the house")
    with session("inner"):
        policy.admit("send", {"to": "bob"}, WHO)
    question, around = asked[0]
    assert question == ("send", {"to": "bob"}, "it leaves the house", "run-1", "planner", "ada", "research")
    assert around.session == "inner"


def test_so_many_questions_may_be_open_and_no_thread_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_asking, "MAX_ASKING", 2)
    released = threading.Event()
    policy = ToolPolicy(ask=lambda question: released.wait(30), ask_timeout_s=0.01).ask("*")
    found = [outcome(policy) for _ in range(4)]
    assert ["open already" in one for one in found] == [False, False, True, True]
    released.set()
    wait_until(lambda: not any(thread.name == "spanfuse-ask" for thread in threading.enumerate()))
    assert outcome(policy) == "allow"

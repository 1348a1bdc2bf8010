"""Agents as scripts: a few words per step, written out as the OTLP spans that such an agent sends.

>>> agent(tool("read", path="a") >> "text of a", together(tool("x") >> "1", tool("y") >> "2"), user("Go on."))

A step is one turn of the model: a model call asks for tools, they run, and the next model call brings their results.
How that shows in spans is the framework's affair (`Shows`), and no rule may depend on it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from tests.otlp.fixtures import pairs
from tests.support.agents import SECOND, START_NS

Shows = Literal["messages", "spans", "both", "blocks", "chat", "scratchpad", "restated"]
"""`messages`: model calls with their content, no tool spans; `spans`: tool spans with content, model calls without; `both`;
`blocks`: as `messages`, with results inside user messages; `chat`: the agent writes its command as text, and what it brings
comes back as a user message; `restated`: as `chat`, with the task stated anew in each; `scratchpad`: all there is in one prompt
that grows."""

_ADVICE: Final = (
    "You work in a shell. Answer with exactly one action in each turn, and with nothing but the action. Never answer the "
    "question before you have seen the results that it needs, and never ask anyone else for them. When you are done, say so."
)

_ids = itertools.count(1)


@dataclass(frozen=True)
class Act:
    """A tool call and what it brings; a result that is none is not recorded."""

    tool: str
    arguments: Any
    result: Any = "ok"
    error: str = ""
    """Type of the failure."""
    lasts: float = 0.5
    """Seconds."""

    def __rshift__(self, result: Any) -> Act:
        """With that result."""
        return replace(self, result=result)

    def fails(self, message: str, error: str = "ToolError") -> Act:
        """With that failure."""
        return replace(self, result=message, error=error)

    def takes(self, seconds: float) -> Act:
        """Lasting that long."""
        return replace(self, lasts=seconds)


@dataclass(frozen=True)
class Turn:
    """Tool calls that the model asks for at once; they run at the same time."""

    acts: tuple[Act, ...]


@dataclass(frozen=True)
class Says:
    """Someone speaks to the agent, which answers in text. `afresh`: the conversation before is not sent along. Without a text
    the agent is asked to go on though nobody has spoken."""

    text: str
    reply: str | None = None
    afresh: bool = False

    def __rshift__(self, reply: str) -> Says:
        return replace(self, reply=reply)


@dataclass(frozen=True)
class Refusal:
    """The provider refuses the model call that is due."""

    error: str
    message: str = ""


@dataclass(frozen=True)
class Wait:
    """Nothing happens for so many seconds."""

    seconds: float


@dataclass(frozen=True)
class Call:
    """Numbers for the model calls from here on; what is none stays as it is."""

    input: int | None = None
    output: int | None = None
    cost_usd: float | None = None


Item = Act | Turn | Says | Refusal | Wait | Call


def tool(name: str, raw: Any = None, /, **arguments: Any) -> Act:
    """A tool call, with named arguments or with raw ones."""
    return Act(name, arguments if raw is None else raw)


def together(*acts: Act) -> Turn:
    """Parallel tool calls of one turn."""
    return Turn(acts)


def user(text: str) -> Says:
    """The user goes on with the conversation."""
    return Says(text)


def monologue(text: str) -> Says:
    """The agent speaks without having been spoken to."""
    return Says("", text)


def prompt(text: str) -> Says:
    """A model call with nothing but this text."""
    return Says(text, afresh=True)


def wait(seconds: float) -> Wait:
    """Time passes."""
    return Wait(seconds)


def refused(error: str = "429", message: str = "") -> Refusal:
    """A model call that the provider refuses."""
    return Refusal(error, message)


@dataclass
class Sent:
    """A span as OTLP/JSON, and what the test's road must know of it."""

    span: dict[str, Any]
    resource: dict[str, Any]
    session: str
    model_call: bool
    end_ns: int


@dataclass
class Agent:
    """One agent at work, and the spans that it has sent."""

    session: str | None = "s"
    """Its session's id; none: no span names one."""
    name: str = ""
    user: str = ""
    team: str = ""
    conversation: str = ""
    trace: str = "a" * 32
    parent: str = ""
    at: float = 0
    """Seconds since the start of time."""
    every: float = 2
    """Seconds from one model call to the next."""
    shows: Shows = "both"
    task: str = "Do what is in the ticket."
    numbers: dict[str, Any] = field(default_factory=lambda: {"input": 100, "output": 20, "cost_usd": None})
    history: list[dict[str, Any]] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    started: bool = False

    def do(self, items: Iterable[Item]) -> None:
        """Play the script."""
        if self.history == []:
            advice = f"\n{_ADVICE}" if self.shows in ("restated", "scratchpad") else ""
            self.history = [_says("user", self.task + advice)]
        for item in items:
            if isinstance(item, Wait):
                self.at += item.seconds
            elif isinstance(item, Call):
                self.numbers |= {k: v for k, v in vars(item).items() if v is not None}
            elif isinstance(item, Says):
                self._speak(item)
            elif isinstance(item, Refusal):
                self._ask(self.history, None, error=item)
            else:
                self._turn((item,) if isinstance(item, Act) else item.acts)

    def finish(self) -> None:
        """The last answer."""
        self._ask(self.history, _says("assistant", "That is all."))

    def _speak(self, said: Says) -> None:
        asked = [_says("user", said.text)] if said.text else []
        before = self.history if not said.afresh and (self.started or not asked) else []
        reply = _says("assistant", f"About {said.text}" if said.reply is None else said.reply)
        self._ask([*before, *asked], reply)
        self.history = [*before, *asked, reply]

    def _turn(self, acts: tuple[Act, ...]) -> None:
        asked, answers = self._written(acts)
        due = self.at + self.every
        self._ask(self.history, asked)
        if self.shows in ("spans", "both"):
            begun = self.at - self.every + 0.6
            for i, act in enumerate(acts):
                self._run(act, begun + 0.01 * i)
        self.at = max(due, due - self.every + 0.7 + max(a.lasts for a in acts))
        if self.shows == "scratchpad":
            self.history = [
                _says("user", f"{_text(self.history[0])}\n{_text(asked)}\nObservation: {_text(answers[0])}")
            ]
        else:
            self.history = [*self.history, asked, *answers]

    def _written(self, acts: tuple[Act, ...]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The messages of a turn: what the model asks for, and what comes back."""
        if self.shows in ("messages", "spans", "both", "blocks"):
            ids = [f"call_{next(_ids):024x}" for _ in acts]
            asked = {"role": "assistant", "parts": [_asks(a, i) for a, i in zip(acts, ids, strict=True)]}
            write = _block if self.shows == "blocks" else _answers
            return asked, [write(a, i) for a, i in zip(acts, ids, strict=True)]
        text = "\n".join(f"{a.tool} {json.dumps(a.arguments)}" for a in acts)
        told = "\n".join(_told(a) for a in acts)
        if self.shows == "restated":
            told = f"{self.task}\n{_ADVICE}\nThe last result:\n{told}\nWhat is the next action?"
        return _says("assistant", f"Action: {text}"), [_says("user", told)]

    def _ask(self, messages: list[dict[str, Any]], reply: dict[str, Any] | None, error: Refusal | None = None) -> None:
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-4o-mini",
        }
        if self.shows != "spans" or not any(p["type"] != "text" for m in messages for p in m.get("parts", ())):
            attributes["gen_ai.input.messages"] = json.dumps(messages)
            if reply:
                attributes["gen_ai.output.messages"] = json.dumps([reply])
        if error:
            attributes["error.type"] = error.error
        else:
            attributes["gen_ai.usage.input_tokens"] = self.numbers["input"]
            attributes["gen_ai.usage.output_tokens"] = self.numbers["output"]
            if self.numbers["cost_usd"] is not None:
                attributes["gen_ai.cost.total_cost"] = self.numbers["cost_usd"]
        self._send("chat gpt-4o-mini", attributes, self.at, 0.5, True, error.message or "refused" if error else "")
        self.at += self.every
        self.started = True

    def _run(self, act: Act, at: float) -> None:
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": act.tool,
            "gen_ai.tool.call.arguments": act.arguments
            if isinstance(act.arguments, str)
            else json.dumps(act.arguments),
        }
        if act.error:
            attributes["error.type"] = act.error
        elif act.result is not None:
            attributes["gen_ai.tool.call.result"] = (
                act.result if isinstance(act.result, str) else json.dumps(act.result)
            )
        self._send(f"execute_tool {act.tool}", attributes, at, act.lasts, False, act.result if act.error else "")

    def _send(
        self, name: str, attributes: dict[str, Any], at: float, lasts: float, model_call: bool, failure: str
    ) -> None:
        who = {
            "session.id": self.session,
            "gen_ai.conversation.id": self.conversation,
            "gen_ai.agent.name": self.name,
            "user.id": self.user,
            "team.id": self.team,
        }
        start = START_NS + round(at * SECOND)
        end = start + round(lasts * SECOND)
        span = {
            "traceId": self.trace,
            "spanId": f"{next(_ids):016x}",
            "parentSpanId": self.parent,
            "name": name,
            "kind": 3 if model_call else 1,
            "startTimeUnixNano": str(start),
            "endTimeUnixNano": str(end),
            "attributes": pairs({**attributes, **{k: v for k, v in who.items() if v}}),
            "status": {"code": 2, "message": failure} if failure else {},
        }
        self.sent.append(Sent(span, {"service.name": "field"}, self.session or f"trace:{self.trace}", model_call, end))


def _says(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _text(message: dict[str, Any]) -> str:
    return str(message["parts"][0]["content"])


def _block(act: Act, call_id: str) -> dict[str, Any]:
    """A result as Anthropic has it: a block of a user message."""
    result = {"type": "tool_result", "tool_use_id": call_id, "content": _told(act) if act.error else act.result}
    return {"role": "user", "content": [{**result, "is_error": True} if act.error else result]}


def _told(act: Act) -> str:
    text = act.result if isinstance(act.result, str) else json.dumps(act.result)
    return f"Error: {text}" if act.error else text


def _asks(act: Act, call_id: str) -> dict[str, Any]:
    return {"type": "tool_call", "id": call_id, "name": act.tool, "arguments": act.arguments}


def _answers(act: Act, call_id: str) -> dict[str, Any]:
    response = _told(act) if act.error else act.result
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": call_id, "response": response}]}


def agent(*items: Item, done: bool = True, **who: Any) -> list[Sent]:
    """The spans of an agent that follows a script.

    Args:
        items: the steps.
        done: whether it gives a last answer.
        who: fields of `Agent`.
    """
    one = Agent(**who)
    one.do(items)
    if done:
        one.finish()
    return one.sent

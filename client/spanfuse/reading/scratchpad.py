"""The scratchpad of an agent that keeps all in one prompt: task, actions and observations, longer each turn.

LangChain's ReAct agents and their kin send no history of messages; the prompt ends with what the last action brought:

    Action: search
    Action Input: {"query": "rainfall of Lisbon"}
    Observation: 774 mm

That a prompt grew is no repetition; that its end is the same step again is. So its last action and observation are read as
if they had come as messages.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Final, NamedTuple

_LINE: Final = re.compile(
    r"^[ \t]{0,8}(action(?: input)?|observation)(?: \d{1,4})?[ \t]{0,2}:", re.MULTILINE | re.IGNORECASE
)
"""Bounded in every part, so that no text makes it look twice at the same place."""
_NAME: Final = re.compile(r"[\w.-]+")
_CUE: Final = re.compile(r"(?:thought|action)(?: \d{1,4})?[ \t]{0,2}:\Z", re.IGNORECASE)
"""What the prompt ends with so that the model goes on."""
_CUE_CHARS: Final = 32
_LAST_MARKS: Final = 8


class Scratchpad(NamedTuple):
    """What the end of a prompt tells."""

    steps: int
    """Observations in the prompt."""
    tool: str
    """Tool that the last action called; empty where the line names none."""
    arguments: str
    """Its arguments, as they stand there."""
    observation: str
    """What it brought: all that follows."""


def read_scratchpad(text: str) -> Scratchpad | None:
    """The last step in a prompt; none where the prompt does not end with an observation of an action."""
    if "bservation" not in text:
        return None
    text = _without_cue(text.rstrip())
    steps, marks = _marks(text)
    if not marks or _kind(marks[-1]) != "observation":
        return None
    last = len(marks) - 1
    asked = next((i for i in range(last - 1, -1, -1) if _kind(marks[i]) == "action"), None)
    if asked is None:
        return None
    line = text[marks[asked].end() : marks[asked + 1].start()].strip()
    tool = _NAME.match(line)
    rest = line[tool.end() :].strip() if tool else line
    if asked + 1 < last and _kind(marks[asked + 1]) == "action input":
        rest = text[marks[asked + 1].end() : marks[asked + 2].start()].strip()
    observation = text[marks[last].end() :].strip()
    return Scratchpad(steps, tool[0] if tool else "", rest, observation)


def _marks(text: str) -> tuple[int, list[re.Match[str]]]:
    """How many observations there are, and the last lines of any kind."""
    steps, last = 0, deque[re.Match[str]](maxlen=_LAST_MARKS)
    for mark in _LINE.finditer(text):
        steps += _kind(mark) == "observation"
        last.append(mark)
    return steps, list(last)


def _without_cue(text: str) -> str:
    cue = _CUE.search(text, max(0, len(text) - _CUE_CHARS))
    return text[: cue.start()] if cue else text


def _kind(mark: re.Match[str]) -> str:
    return mark[1].lower()

"""Instructions to the model that stand in what a tool brought: where there are some, and how plainly they are meant for it.

A tool result is data. A passage of it that speaks to the model has marks that data seldom has, of five kinds:

- it *supersedes*: the task that was given is to be dropped, put off, or replaced;
- it *addresses* the model: you, the assistant;
- it *claims a voice*: that of the user, of the system, of a developer;
- it *imitates* the markup that tells roles and instructions apart;
- it *hides*: somebody is not to be told or asked.

One kind alone is ordinary (documentation addresses its reader, requests speak of the user), two close together are not: of
4,400 texts that agents at work were shown, 57 had one kind and none had two. The marks are English but for markup, and for
orders to ignore earlier instructions.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Final, NamedTuple

MAX_CHARS: Final = 16_384
"""Of a longer text only this much is looked at, characters, half of it from each end."""
GAP_CHARS: Final = 300
"""Marks no farther apart than this, characters, belong to one passage, as does what follows its last mark this closely,
unless that mark closes it."""
AROUND_CHARS: Final = 120
"""How far from its anchor a mark may reach, characters."""
MAX_HITS: Final = 16
"""Places looked at per anchor: a text that is full of one word costs no more."""

_NOUN: Final = (
    r"(?:instructions?|prompts?|rules|guidelines?|directions|directives?|tasks?|requests?|questions?|quer(?:y|ies)|orders?"
    r"|objectives?|goals?|jobs?)"
)
_MODEL: Final = (
    r"(?:ai|llm|(?:large )?language model|assistant|chatbot|agent|bot|claude|gpt|chatgpt|gemini|llama|mistral|qwen|deepseek"
    r"|grok|copilot)"
)
_ORDER: Final = (
    r"(?:instruc\w+|instruç\w+|istruzion\w+|anweisung\w*|consignes?|prompts?|rules|guidelines|directives?|directions"
    r"|orders)"
)
_BEFORE: Final = (
    r"(?:previous(?:ly)?|prior|above|earlier|preceding|original|former|vorherig\w*|bisherig\w*|précédente?s?|anterior\w*"
    r"|precedent\w*|previas?)"
)
_WITHIN: Final = r"[^.!?]{0,60}?\b"


class _Mark(NamedTuple):
    start: int
    end: int
    kinds: tuple[str, ...]
    closes: bool


class _Sign(NamedTuple):
    """How marks of one kind, or of two at once, are told."""

    kinds: tuple[str, ...]
    anchors: tuple[str, ...]
    """Texts without one of which nothing can match: they are found much faster than the pattern. None: the pattern begins
    with a letter that is rare."""
    pattern: re.Pattern[str]
    """Looked for around each anchor."""


def _sign(kinds: str, anchors: str, *patterns: str) -> _Sign:
    return _Sign(tuple(kinds.split()), tuple(anchors.split(",")) if anchors else (), re.compile("|".join(patterns)))


SIGNS: Final = (
    # Who is told to drop earlier instructions is one who was given some: the model. Also in the languages whose word begins
    # as the English one, in Chinese and in Japanese.
    _sign(
        "supersedes addresses",
        "ignor,disregard,forget,overrid,忽略,無視",
        rf"\b(?:ignor\w*|disregard(?:ing)?|forget|overrid(?:e|es|ing))\b[^.!?]{{0,40}}?\b{_BEFORE}\b[^.!?]{{0,30}}?\b{_ORDER}\b",
        rf"\b(?:ignor\w*|disregard(?:ing)?|forget|overrid(?:e|es|ing))\b[^.!?]{{0,40}}?\b{_ORDER} {_BEFORE}\b",
        r"\b(?:ignore|disregard|forget|override) your (?:\w+ )?(?:instructions|guidelines|prompt|rules)\b",
        r"忽略[^。]{0,16}(?:指令|指示|提示)|指示を[^。]{0,8}無視",
    ),
    _sign(
        "supersedes",
        "before you,after you,before continuing,before proceeding,instead of,the following,your new, new instruction,"
        " new directive",
        rf"\b(?:before|after) (?:you (?:can |may |could )?(?:solve|continue|proceed|complete|finish|do|answer|start|begin"
        rf"|respond|perform|work|help|execute)|continuing|proceeding)\b{_WITHIN}(?:the|this|that|my) (?:[\w']+ )"
        rf"{{0,2}}{_NOUN}\b",
        rf"\binstead of (?:the|your|what)\b{_WITHIN}(?:{_NOUN}|asked|told)\b",
        r"\b(?:do|complete|perform|execute|obey) the following\b[^.!?]{0,20}?\b(?:first|instead)\b",
        r"\byour (?:\w+ )?new (?:task|instruction|objective|directive|goal|order)s?\b",
        r"\bnew (?:instruction|directive)s?:? (?:from|for you)\b",
    ),
    _sign(
        "claims",
        " i gave, i asked, i told,message from,i am the ,i am your,this is your,system override,the user ",
        rf"\b{_NOUN} (?:that |which )?i (?:gave|asked|told)\b",
        r"\bmessage from (?:me|us|(?:the|your) (?:user|system|developer|admin\w*|owner|operator))\b",
        r"\b(?:this is|i am) (?:the|your) (?:\w+ )?(?:user|system|admin\w*|developer|operator|owner|creator)\b",
        r"\bsystem override\b",
        r"\bthe user (?:\w+ )?(?:wants|wishes|asks|asked|requested|authori[sz]ed|approved|agreed)\b",
    ),
    _sign(
        "hides",
        "tell,mention,inform,ask,reveal",
        r"\b(?:do not|don't|never|without) (?:tell|mention|inform|reveal)(?:ing)?\b"
        r"[^.!?]{0,30}?\b(?:user|anyone|anybody|this)\b",
        r"\b(?:do not|don't|never|without) ask(?:ing)? (?:\w+ ){0,2}(?:user|confirmation|permission|approval)\b",
    ),
    _sign(
        "imitates",
        "",
        r"<(?:\|\w+\||<sys>|/?(?:system|user|assistant|instructions?|important|information|prompt|admin|tool_results?|"
        r"function_results?))>",
    ),
    _sign("imitates", "", r"\[/?(?:inst|system|admin|assistant)(?: \w+)?\]"),
    _sign("imitates", "", r"### (?:system|instruction|human|user|assistant):"),
)
"""Told in lower case, white space folded."""

_ADDRESSES: Final = _sign(
    "addresses",
    " ai,llm,language model,assistant,chatbot, agent, bot,claude,gpt,gemini,llama,mistral,qwen,deepseek, grok,copilot",
    r"\b(?:(?:you|attention|note to|dear|hey|hello|hi)[,:]?|(?:to|for) (?:you,|the|any|all|my|your)|you are now)"
    rf" (?:(?:the|an?|any|all|my|your|helpful) ){{0,3}}{_MODEL}s?\b",
    rf"\b{_MODEL}s?(?:,|:| reading this,?| processing this,?) (?:you|please|the user)\b",
)
"""Told by the most words, so it is looked for last, and only beside another kind."""


class Passage(NamedTuple):
    """Part of a text that gives instructions to the model."""

    start: int
    """Where it begins."""
    end: int
    """Where it ends."""
    marks: int
    """Kinds of marks in it, 1 to 5."""


def folded(text: str, *, whole: bool = False) -> str:
    """What is looked at of a text, or the whole, in lower case and with white space folded, that of JSON in JSON too."""
    half = MAX_CHARS // 2
    text = (text if whole or len(text) <= MAX_CHARS else f"{text[:half]}\n{text[-half:]}").lower()
    return " ".join((text.replace("\\n", " ") if "\\n" in text else text).split())


def passages(text: str) -> tuple[Passage, ...]:
    """The passages of a `folded` text, in order: those with two kinds of marks or more, else those with one. None where it only
    addresses the model."""
    marks = [mark for sign in SIGNS for mark in _marks(text, sign)]
    if not marks:
        return ()
    found, group = [], list[_Mark]()
    for mark in sorted(marks + _marks(text, _ADDRESSES)):
        if group and mark.start > max(m.end for m in group[-8:]) + GAP_CHARS:
            found.append(_passage(text, group))
            group = []
        group.append(mark)
    found.append(_passage(text, group))
    return tuple(one for one in found if one.marks > 1) or tuple(found)


def _passage(text: str, marks: list[_Mark]) -> Passage:
    last = max(marks, key=lambda mark: mark.end)
    end = last.end if last.closes else min(len(text), last.end + GAP_CHARS)
    return Passage(marks[0].start, end, len({kind for mark in marks for kind in mark.kinds}))


def _marks(text: str, sign: _Sign) -> list[_Mark]:
    if not sign.anchors:
        return [_mark(match, sign) for match in islice(sign.pattern.finditer(text), MAX_HITS)]
    found: dict[tuple[int, int], _Mark] = {}
    for anchor in sign.anchors:
        at, hits = text.find(anchor), 0
        while at >= 0 and hits < MAX_HITS:
            match = sign.pattern.search(text, max(0, at - AROUND_CHARS), at + len(anchor) + AROUND_CHARS)
            if match:
                found[match.span()] = _mark(match, sign)
            at, hits = text.find(anchor, at + len(anchor)), hits + 1
    return list(found.values())


def _mark(match: re.Match[str], sign: _Sign) -> _Mark:
    return _Mark(*match.span(), sign.kinds, match[0].startswith(("</", "[/")))

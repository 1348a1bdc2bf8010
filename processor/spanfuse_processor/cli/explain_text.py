"""Why a breaker did or did not trip, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from rich.text import Text

from spanfuse_processor.cli.breakers_text import release, stands
from spanfuse_processor.cli.columns import Column, lay_out, prose
from spanfuse_processor.cli.options import printable
from spanfuse_processor.cli.sessions_text import effect_text

Row = dict[str, Any]

BAR: Final = 10
"""Cells of the bar that shows how near a threshold is."""
MAX_WHY: Final = 5
"""Rules explained in a sentence, those that come first."""

_RULES: Final = (
    Column("RULE", least=20),
    Column("MODE"),
    Column("COUNTED", right=True, least=16),
    Column("NEAR"),
    Column(""),
)


def told(found: Row, width: int, *, everything: bool) -> Iterator[Text]:
    """What stands, and rule by rule what is counted."""
    if found["decision"] is not None:
        yield from stands(found["decision"], width)
        yield release(found["key"])
    else:
        yield Text(printable(found["key"]), "bold").append("  ").append_text(effect_text(None))
    for other in found.get("others", ()):
        yield from prose(
            f"Its calls also meet {other['key']}: {other.get('rule', '')}: {other.get('message', '')}", width, 2
        )
    if not found["known"]:
        yield Text("  Nothing is known of it; this is how one stands that has done nothing yet.")
    shown = [
        rule
        for rule in found["rules"]
        if everything or rule["stands"] or (rule["near"] or rule["counted"] or rule["fired"])
    ]
    shown = [rule for rule in shown if everything or rule["mode"] != "off"]
    if not shown:
        yield Text("  No rule has counted anything against it. All rules: --all")
        return
    yield Text()
    yield from lay_out(_RULES, [_cells(rule) for rule in shown], width, 2)
    yield Text()
    for rule in shown[:MAX_WHY]:
        yield from prose(f"{rule['rule']}: {rule['why']}", width, 2)


def _counts(rule: Row) -> bool:
    """Whether there is something to tell of it: it may fire, and has counted something."""
    live = rule["mode"] != "off" and rule["threshold"] is not None and (rule["near"] or rule["counted"])
    return bool(rule["stands"] or rule["fired"] or live)


def _cells(rule: Row) -> list[str | Text]:
    counted = f"{rule['counted']:g}"
    if rule["threshold"] is not None:
        counted += f" of {rule['threshold']:g}"
    word, colour = ("stands", "red") if rule["stands"] else ("has fired", "yellow") if rule["fired"] else ("", "")
    return [rule["rule"], rule["mode"], f"{counted} {rule['unit']}".strip(), _bar(rule), Text(word, colour)]


def _bar(rule: Row) -> Text:
    filled = BAR if rule["stands"] else round(BAR * rule["near"])
    colour = "red" if rule["stands"] else "yellow" if rule["near"] >= 0.5 else "green"
    return Text("█" * filled + "░" * (BAR - filled), colour)

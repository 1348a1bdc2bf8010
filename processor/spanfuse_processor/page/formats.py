"""Numbers, times and addresses for people."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

from spanfuse_schemas.budget import NANO, dollars

_STEPS: Final = ((10**9, "B"), (10**6, "M"), (10**3, "k"))
_LATEST: Final = datetime(9999, 12, 31, tzinfo=UTC)


def money(nano_usd: float) -> str:
    """Nano-dollars: cents from a dollar on, more decimals below where there are any."""
    whole = round(nano_usd)
    cents = whole % (NANO // 100) == 0
    return f"${whole / NANO:,.2f}" if whole and (cents or abs(whole) >= NANO) else dollars(whole)


def short(number: float) -> str:
    """A number in at most five characters, such as `12.3k`."""
    for size, letter in _STEPS:
        if abs(number) >= size:
            scaled = number / size
            return f"{scaled:.0f}{letter}" if abs(scaled) >= 100 else f"{scaled:.1f}".removesuffix(".0") + letter
    return f"{number:g}" if number == round(number) else f"{number:.1f}"


def count(number: float) -> str:
    """A number with its thousands apart."""
    return f"{number:,.0f}" if number == round(number) else f"{number:,.2f}"


def percent(share: float | None) -> str:
    """A share of 1; a dash where it is not known."""
    return "–" if share is None else f"{share:.0%}"


def amount(value: float, unit: str) -> str:
    """An amount of a budget in its unit."""
    return money(value) if unit == "usd" else f"{count(value)} {unit}"


def iso(at_ns: int) -> str:
    """A moment, as `<time>` and scripts read it."""
    return _moment(at_ns).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def clock(at_ns: int) -> str:
    """The same for people whose browser runs no script; with one they see it by their own clock."""
    return _moment(at_ns).strftime("%Y-%m-%d %H:%M:%S UTC")


def lasted(duration_ns: float) -> str:
    """A duration: its two largest units."""
    seconds = duration_ns / 10**9
    if seconds < 10:
        return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"
    minutes, hours = divmod(round(seconds), 60), divmod(round(seconds) // 60, 60)
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{minutes[0]} min {minutes[1]} s" if minutes[1] else f"{minutes[0]} min"
    days = divmod(hours[0], 24)
    return f"{days[0]} d {days[1]} h" if days[0] else f"{hours[0]} h {hours[1]} min"


def address(path: str, **query: Any) -> str:
    """A link: what is not empty of the query is quoted into it. Ids go there, not into the path, where browsers take `..`, even
    quoted, for the folder above."""
    asked = {name: value for name, value in query.items() if value not in ("", None)}
    return f"{path}?{urlencode(asked)}" if asked else path


def anchor(*parts: object) -> str:
    """An id of an element that stays the same when the page is drawn anew, so that the focus stays on it."""
    return "e" + hashlib.sha256("\n".join(map(str, parts)).encode("utf-8", "replace")).hexdigest()[:12]


def _moment(at_ns: int) -> datetime:
    try:
        return datetime.fromtimestamp(at_ns / 10**9, UTC)
    except (OverflowError, ValueError, OSError):
        return _LATEST


FILTERS: Final = {
    "money": money, "short": short, "count": count, "percent": percent, "iso": iso, "clock": clock, "lasted": lasted,
}  # fmt: skip
"""What templates know them by."""

"""What a page says, read as a browser would."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any


class Document(HTMLParser):
    """The elements of a page.

    Args:
        html: its text.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.pieces: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.text += data
        self.pieces += [data.strip()] if data.strip() else []

    def all(self, tag: str, **having: Any) -> list[dict[str, str]]:
        """The attributes of each element of this kind."""
        return [a for t, a in self.elements if t == tag and all(a.get(k) == v for k, v in having.items())]

    @property
    def links(self) -> list[str]:
        """Where it leads."""
        return [a["href"] for a in self.all("a") if "href" in a and not a["href"].startswith("#")]

    @property
    def ids(self) -> list[str]:
        """Ids of its elements."""
        return [a["id"] for _, a in self.elements if "id" in a]

"""The site of docs/, built as `make docs` builds it, and what stands in it."""

from __future__ import annotations

import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
_ATTRIBUTES = {"a": "href", "link": "href", "script": "src", "img": "src", "iframe": "src"}


class Built(NamedTuple):
    """What a build has come to."""

    folder: Path
    said: str
    failed: bool


def build(folder: Path) -> Built:
    """Build it with `--strict`, which sees no warnings where it is also `--quiet`."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100)
    return Built(folder, done.stdout + done.stderr, bool(done.returncode))


class Read(HTMLParser):
    """The references and the anchors of a page."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        """Where its text leads."""
        self.loaded: list[str] = []
        """What a browser asks for to show it."""
        self.anchors: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """One tag."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if reference := given.get(_ATTRIBUTES.get(tag, "")):
            (self.links if tag == "a" else self.loaded).append(reference)

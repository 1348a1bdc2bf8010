"""A page as one file of HTML: style and pictures are in it, scripts there are none, and it asks no host for anything."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from spanfuse_processor.page import formats
from spanfuse_processor.report.parts import Page
from spanfuse_processor.report.plots import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
"""Content-Security-Policy of the file: nothing runs, and nothing is fetched."""
_HERE: Final = Path(__file__).parent
_PAGE: Final = Path(formats.__file__).parent


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader([_HERE / "templates", _PAGE / "templates"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= formats.FILTERS
    made.globals |= {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": RIGHT, "top": TOP, "bottom": BOTTOM}
    return made


@cache
def _style() -> Markup:
    """The style of the live page, and what reports have beside it."""
    files = (_PAGE / "static" / "page.css", _HERE / "report.css")
    return Markup("\n".join(path.read_text(encoding="utf-8") for path in files))


def html(page: Page) -> str:
    """The file."""
    return _environment().get_template("report.html").render(page=page, style=_style(), policy=POLICY)


def write(page: Page, path: Path) -> None:
    """Write the file; halves of surrogate pairs, which ids may hold, become question marks."""
    path.write_text(html(page), encoding="utf-8", errors="replace")

"""Ids in paths: `{session:id}` is any text, slashes and line breaks included, as agents make them."""

from __future__ import annotations

from typing import Final

from starlette.convertors import Convertor, register_url_convertor


class AnyText(Convertor[str]):
    """Starlette's own `path` ends at a line break."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        """The id in a path."""
        return value

    def to_string(self, value: str) -> str:
        """The path of an id."""
        return value


ID: Final = "id"
"""Name of the convertor."""

register_url_convertor(ID, AnyText())
